// A libcuda.so.1 that pretends: device memory is the host's, copies are done at once, kernels are counted and do nothing.
// With it the tests run all of the GPU layer but the kernels on a machine without a GPU. The environment says what goes wrong:
// PRETEND_INIT, PRETEND_SYNC, PRETEND_LAUNCH (error numbers), PRETEND_DRIVER (13000), PRETEND_GPUS (1), PRETEND_MAJOR (9).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, UNKNOWN = 999 };

static const size_t MEMORY = (size_t)1 << 30;
static size_t held;
static __thread void *current;  // as with CUDA, every thread has to say which context it works in
static uintptr_t next_handle = 0x1000;

static int from_environment(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int in_context(void) { return current ? SUCCESS : INVALID_CONTEXT; }
static int make(void **handle) {
    *handle = (void *)next_handle++;
    return in_context();
}
static int unknown(void) { return UNKNOWN; }

// cuda.bindings asks for every function by its name without a version.
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    Dl_info here;
    dladdr((void *)unknown, &here);
    void *library = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = dlsym(library, name);
    if (!*function) *function = (void *)unknown;
    if (status) *status = 0;
    return SUCCESS;
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}

int cuInit(unsigned flags) { return from_environment("PRETEND_INIT", SUCCESS); }
int cuDriverGetVersion(int *version) {
    *version = from_environment("PRETEND_DRIVER", 13000);
    return SUCCESS;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == 700 ? "an illegal memory access was encountered" : error == OUT_OF_MEMORY ? "out of memory" : "something else went wrong";
    return SUCCESS;
}
int cuGetErrorName(int error, const char **text) {
    *text = "CUDA_ERROR";
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = from_environment("PRETEND_GPUS", 1);
    return SUCCESS;
}
int cuDeviceGet(int *device, int number) {
    *device = number;
    return number < from_environment("PRETEND_GPUS", 1) ? SUCCESS : INVALID_DEVICE;
}
int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "Pretended GPU");
    return SUCCESS;
}
int cuDeviceGetPCIBusId(char *slot, int size, int device) {
    snprintf(slot, size, "0000:00:00.0");
    return SUCCESS;
}
int cuDeviceTotalMem(size_t *bytes, int device) {
    *bytes = MEMORY;
    return SUCCESS;
}
// An H100's answers, by the numbers of CUdevice_attribute.
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 1: case 2: case 3: *value = 1024; break;      // threads a block, and along x and y
        case 4: *value = 64; break;                        // along z
        case 5: *value = 2147483647; break;                // blocks along x
        case 6: case 7: *value = 65535; break;             // along y and z
        case 8: *value = 48 << 10; break;                  // shared memory a block
        case 10: *value = 32; break;                       // threads a warp
        case 12: *value = 65536; break;                    // registers a block
        case 13: *value = 1755000; break;                  // clock, kHz
        case 16: *value = 132; break;                      // multiprocessors
        case 36: *value = 2619000; break;                  // memory clock, kHz
        case 37: *value = 5120; break;                     // memory bus, bits
        case 39: *value = 2048; break;                     // threads a multiprocessor
        case 75: *value = from_environment("PRETEND_MAJOR", 9); break;
        case 76: *value = 0; break;
        case 81: *value = 228 << 10; break;                // shared memory a multiprocessor
        case 97: *value = 227 << 10; break;                // shared memory a block that asks
        case 106: *value = 32; break;                      // blocks a multiprocessor
        default: fprintf(stderr, "attribute %d is not pretended\n", attribute); return INVALID_VALUE;
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)next_handle++;
    return SUCCESS;
}
int cuCtxSetCurrent(void *context) {
    current = context;
    return SUCCESS;
}
int cuCtxSynchronize(void) { return in_context() ? in_context() : from_environment("PRETEND_SYNC", SUCCESS); }

int cuStreamCreate(void **stream, unsigned flags) { return make(stream); }
int cuStreamDestroy(void *stream) { return in_context(); }
int cuStreamSynchronize(void *stream) { return cuCtxSynchronize(); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return in_context(); }
int cuEventCreate(void **event, unsigned flags) { return make(event); }
int cuEventRecord(void *event, void *stream) { return in_context(); }
int cuEventSynchronize(void *event) { return in_context(); }
int cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    *milliseconds = 2.5f;
    return in_context();
}
int cuEventElapsedTime_v2(float *milliseconds, void *first, void *last) { return cuEventElapsedTime(milliseconds, first, last); }

// The size stands in front of the memory.
int cuMemAlloc(Address *address, size_t size) {
    if (in_context()) return in_context();
    if (held + size > MEMORY) return OUT_OF_MEMORY;
    char *block;
    if (posix_memalign((void **)&block, 512, size + 512)) return OUT_OF_MEMORY;
    *(size_t *)block = size;
    held += size;
    *address = (Address)(block + 512);
    return SUCCESS;
}
int cuMemFree(Address address) {
    char *block = (char *)address - 512;
    held -= *(size_t *)block;
    free(block);
    return in_context();
}
int cuMemGetInfo(size_t *left, size_t *all) {
    *left = MEMORY - held;
    *all = MEMORY;
    return in_context();
}
int cuMemHostAlloc(void **address, size_t size, unsigned flags) { return posix_memalign(address, 4096, size) ? OUT_OF_MEMORY : in_context(); }
int cuMemFreeHost(void *address) {
    free(address);
    return in_context();
}
int cuMemcpyHtoDAsync(Address to, const void *from, size_t size, void *stream) {
    memcpy((void *)to, from, size);
    return in_context();
}
int cuMemcpyDtoHAsync(void *to, Address from, size_t size, void *stream) {
    memcpy(to, (void *)from, size);
    return in_context();
}
int cuMemcpyDtoDAsync(Address to, Address from, size_t size, void *stream) {
    memcpy((void *)to, (void *)from, size);
    return in_context();
}
int cuMemsetD8Async(Address to, unsigned char value, size_t size, void *stream) {
    memset((void *)to, value, size);
    return in_context();
}

int cuModuleLoadData(void **module, const void *image) { return memcmp(image, "\x7f" "ELF", 4) ? INVALID_VALUE : make(module); }
int cuModuleGetFunction(void **function, void *module, const char *name) { return make(function); }
int cuFuncSetAttribute(void *function, int attribute, int value) {
    printf("attribute %d = %d\n", attribute, value);
    fflush(stdout);
    return in_context();
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    *blocks = 2;
    return in_context();
}
int cuOccupancyMaxActiveClusters(int *clusters, void *function, void *config) {
    *clusters = 16;
    return in_context();
}

typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
} Config;

// Kernels of the tests take (const float*, float*, int, float, unsigned char): what came is printed.
int cuLaunchKernelEx(const Config *config, void *function, void **values, void **extra) {
    if (in_context()) return in_context();
    if (getenv("PRETEND_QUIET")) return SUCCESS;
    printf("launch grid %u %u %u block %u %u %u shared %u attributes %u values %d %g %u\n", config->grid[0], config->grid[1], config->grid[2],
           config->block[0], config->block[1], config->block[2], config->shared, config->count, *(int *)values[2], *(float *)values[3],
           *(unsigned char *)values[4]);
    fflush(stdout);
    return from_environment("PRETEND_LAUNCH", SUCCESS);
}

int cuStreamBeginCapture(void *stream, int mode) { return in_context(); }
int cuStreamEndCapture(void *stream, void **graph) { return make(graph); }
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    *count = 2;
    return in_context();
}
int cuGraphInstantiate(void **executable, void *graph, uint64_t flags) { return make(executable); }
int cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags) { return make(executable); }
int cuGraphLaunch(void *executable, void *stream) {
    printf("graph\n");
    fflush(stdout);
    return in_context();
}
int cuGraphDestroy(void *graph) { return in_context(); }
int cuGraphExecDestroy(void *executable) { return in_context(); }
