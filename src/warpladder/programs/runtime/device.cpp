// The GPU that the program finds: WARPLADDER_GPU describes it, "name=Tesla T4;major=7;..." (programs/gpus.py).
#include <cstring>
#include <ctime>

#include "host.h"

#undef clock  // the emulator's macro
// Ticks in kernels; processor time in host code, as the C library has it.
EMU_EXPORT clock_t clock() noexcept {
    if (emu::current) return clock_t(emu_clock());
    timespec spent{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return spent.tv_sec * CLOCKS_PER_SEC + spent.tv_nsec / (1000000000 / CLOCKS_PER_SEC);
}

// For -fsanitize=unreachable: the program's own __builtin_unreachable().
struct Unreachable {
    const char* file;
    int line;
};
EMU_EXPORT void __ubsan_handle_builtin_unreachable(Unreachable* place) {
    emu_trap("what the program calls unreachable is reached", place->file, place->line);
}

// Of programs that declare them without a body, as CUDA's headers define them.
#define EMU_EXTREMES(T)                                                                              \
    __attribute__((visibility("default"))) T max(T a, T b) { return emu::larger<T>(a, b); }           \
    __attribute__((visibility("default"))) T min(T a, T b) { return emu::smaller<T>(a, b); }
EMU_EXTREMES(int)
EMU_EXTREMES(unsigned)
EMU_EXTREMES(long)
EMU_EXTREMES(unsigned long)
EMU_EXTREMES(long long)
EMU_EXTREMES(unsigned long long)
EMU_EXTREMES(float)
EMU_EXTREMES(double)
#undef EMU_EXTREMES

namespace emu {

static const std::map<std::string, std::string>& facts() {
    static const std::map<std::string, std::string>& all = *[] {
        auto* out = new std::map<std::string, std::string>;
        const char* text = getenv("WARPLADDER_GPU");
        std::string left = text ? text : "";
        while (!left.empty()) {
            std::string entry = left.substr(0, left.find(';'));
            left.erase(0, entry.size() + 1);
            (*out)[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
        }
        return out;
    }();
    return all;
}

double fact(const char* name) {
    auto found = facts().find(name);
    return found == facts().end() ? 0 : strtod(found->second.c_str(), nullptr);
}

static cudaDeviceProp made() {
    cudaDeviceProp p{};
    auto name = facts().find("name");
    snprintf(p.name, sizeof p.name, "%s", name == facts().end() ? "emulated" : name->second.c_str());
    p.totalGlobalMem = size_t(fact("memory"));
    p.sharedMemPerBlock = 48 << 10, p.sharedMemPerBlockOptin = size_t(fact("shared_opt_in"));
    p.sharedMemPerMultiprocessor = size_t(fact("shared_per_multiprocessor"));
    p.reservedSharedMemPerBlock = fact("major") >= 8 ? 1024 : 0;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536, p.warpSize = 32, p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024, p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff, p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.clockRate = int(fact("clock_khz")), p.memoryClockRate = int(fact("memory_clock_khz"));
    p.memoryBusWidth = int(fact("bus_bits")), p.l2CacheSize = int(fact("l2"));
    p.totalConstMem = 65536, p.major = int(fact("major")), p.minor = int(fact("minor"));
    p.textureAlignment = 512, p.texturePitchAlignment = 32, p.surfaceAlignment = 512;
    p.deviceOverlap = p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
    p.multiProcessorCount = int(fact("multiprocessors"));
    p.persistingL2CacheMaxSize = p.major >= 8 ? p.l2CacheSize / 8 * 5 : 0;
    p.accessPolicyMaxWindowSize = p.major >= 8 ? 128 << 20 : 0;
    p.asyncEngineCount = 3, p.maxThreadsPerMultiProcessor = int(fact("threads_per_multiprocessor"));
    p.maxBlocksPerMultiProcessor = int(fact("blocks_per_multiprocessor"));
    p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = p.managedMemory = 1;
    p.concurrentManagedAccess = p.computePreemptionSupported = p.canUseHostPointerForRegisteredMem = 1;
    p.cooperativeLaunch = 1, p.singleToDoublePrecisionPerfRatio = 2, p.memoryPoolsSupported = 1;
    p.clusterLaunch = p.major >= 9;
    p.maxTexture1D = 131072, p.maxTexture1DLinear = 268435456;
    p.maxTexture2D[0] = 131072, p.maxTexture2D[1] = 65536;
    p.maxTexture3D[0] = p.maxTexture3D[1] = p.maxTexture3D[2] = 16384;
    return p;
}

const cudaDeviceProp& properties() {
    static const cudaDeviceProp properties = made();
    return properties;
}

}  // namespace emu

using namespace emu;

EMU_API cudaGetDeviceCount(int* count) { return *count = 1, returned(cudaSuccess); }
EMU_API cudaGetDevice(int* device) { return *device = host().device, returned(cudaSuccess); }
EMU_API cudaSetDevice(int device, const char* file, int line) {
    if (device == 0) return returned(cudaSuccess);
    report("remark", "device", "cudaSetDevice at {0} names device " + std::to_string(device)
        + ", and there is one, number 0", "", {file, line});
    return failed(cudaErrorInvalidDevice);
}
EMU_API cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
    if (device) return failed(cudaErrorInvalidDevice);
    *out = properties();
    return returned(cudaSuccess);
}
EMU_API cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (device) return failed(cudaErrorInvalidDevice);
    const cudaDeviceProp& p = properties();
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
        case cudaDevAttrTotalConstantMemory: *value = int(p.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMaxPitch: *value = int(p.memPitch); break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrClockRate: *value = p.clockRate; break;
        case cudaDevAttrTextureAlignment: *value = int(p.textureAlignment); break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrComputeMode: case cudaDevAttrKernelExecTimeout: case cudaDevAttrIntegrated:
        case cudaDevAttrPciBusId: case cudaDevAttrPciDeviceId: case cudaDevAttrHostNativeAtomicSupported:
        case cudaDevAttrPageableMemoryAccess: case cudaDevAttrCooperativeMultiDeviceLaunch: *value = 0; break;
        case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = int(p.reservedSharedMemPerBlock); break;
        case cudaDevAttrMaxPersistingL2CacheSize: *value = p.l2CacheSize; break;
        default: *value = 1;  // what is there or is not: it is
    }
    return returned(cudaSuccess);
}
EMU_API cudaDeviceReset(const char* file, int line) {
    Lock lock;
    cudaError_t error = returned(cudaSuccess);
    host_waits_for_all();
    for (auto& [low, a] : host().allocations)  // a reset frees them
        if (!a.freed && a.type != cudaMemoryTypeHost) cudaFree((void*)low, file, line);
    host().sticky = host().last = cudaSuccess;
    return error;
}
EMU_API cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    *value = limit == cudaLimitStackSize ? 1024 : limit == cudaLimitPrintfFifoSize ? 1 << 20 : 8 << 20;
    return returned(cudaSuccess);
}
