// Functions of the CUDA runtime that programs call. Each takes the place of its call, for reports; bodies are in
// runtime/. Work is done when it is requested, which is one order that streams allow.
#pragma once
#include "types.h"

#define EMU_API EMU_EXPORT cudaError_t

namespace emu {
// Pointer that the next allocation fills: its name in the program, bytes of what it points to, 1 if that is not known,
// and for each of these bytes if it lies between members. programs/rewrite.py sets them at the call, in kernels too,
// whose checks do not watch these functions.
struct Named {
    const char* name = "";
    unsigned element = 1;
    const unsigned char* padding = nullptr;
    bool is_of_numbers = false;  // the type is known
};
// A whole word may lie between members if one needs eight bytes.
template <class T> EMU_UNSEEN const unsigned char* padding_of() {
#ifdef EMU_CHECK
    if constexpr (std::is_class_v<T>)
        if constexpr (std::is_trivially_copyable_v<T> && alignof(T) >= 8) {
            static unsigned char padding[sizeof(T)];
            alignas(T) unsigned char object[sizeof(T)];
            memset(object, 1, sizeof(T));
            __builtin_clear_padding(reinterpret_cast<T*>(object));
            for (size_t i = 0; i < sizeof(T); ++i) padding[i] = !object[i];
            return memchr(padding, 1, sizeof(T)) ? padding : nullptr;
        }
#endif
    return nullptr;
}
inline thread_local Named next_pointer;
EMU_UNSEEN inline Named taken_name() { auto out = next_pointer; next_pointer = {}; return out; }
template <class T> constexpr unsigned element_of() {
    if constexpr (std::is_void_v<T> || std::is_function_v<T>) return 1;
    else return sizeof(T);
}
EMU_UNSEEN inline void name_next_pointer(const char* name, const void*) { next_pointer = {name, 1}; }
template <class T> EMU_UNSEEN void name_next_pointer(const char* name, T** pointer) {
    next_pointer = {name, element_of<T>(), padding_of<T>(), !std::is_void_v<T>};
}
}  // namespace emu

// errors.cpp
EMU_API cudaGetLastError();
EMU_API cudaPeekAtLastError();
EMU_EXPORT const char* cudaGetErrorString(cudaError_t error);
EMU_EXPORT const char* cudaGetErrorName(cudaError_t error);
EMU_API emu_unread(cudaError_t error, const char* call, EMU_HERE);

// memory.cpp
EMU_API emu_malloc(void** pointer, size_t bytes, int kind, emu::Named name, const char* file, int line);
EMU_API cudaFree(void* pointer, EMU_HERE);
// graph_memory.cpp. In a stream that is captured they become nodes of its graph.
EMU_API emu_malloc_async(void** pointer, size_t bytes, cudaStream_t stream, emu::Named name, const char* file,
    int line);
EMU_API cudaFreeAsync(void* pointer, cudaStream_t stream, EMU_HERE);
EMU_API cudaFreeHost(void* pointer, EMU_HERE);
EMU_API cudaHostRegister(void* pointer, size_t bytes, unsigned flags = 0, EMU_HERE);
EMU_API cudaHostUnregister(void* pointer, EMU_HERE);
EMU_API cudaMemGetInfo(size_t* free, size_t* total);
EMU_EXPORT void emu_rows(void* memory, size_t pitch, size_t width, size_t rows);  // that it has
EMU_API emu_pointer_attributes(cudaPointerAttributes* out, const void* pointer);
template <class T> cudaError_t cudaMalloc(T** pointer, size_t bytes, EMU_HERE) {
    return emu_malloc((void**)pointer, bytes, cudaMemoryTypeDevice, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream, EMU_HERE) {
    return emu_malloc_async((void**)pointer, bytes, stream, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = 1, EMU_HERE) {
    return emu_malloc((void**)pointer, bytes, cudaMemoryTypeManaged, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0, EMU_HERE) {
    return emu_malloc((void**)pointer, bytes, cudaMemoryTypeHost, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned, EMU_HERE) {
    return emu_malloc((void**)pointer, bytes, cudaMemoryTypeHost, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height, EMU_HERE) {
    *pitch = (width + 511) / 512 * 512;
    cudaError_t error = emu_malloc((void**)pointer, *pitch * height, cudaMemoryTypeDevice, emu::taken_name(), file,
        line);
    if (error == cudaSuccess) emu_rows(*pointer, *pitch, width, height);
    return error;
}
inline cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent e, EMU_HERE) {
    *out = {nullptr, (e.width + 511) / 512 * 512, e.width, e.height};
    return emu_malloc(&out->ptr, out->pitch * e.height * e.depth, cudaMemoryTypeDevice, emu::taken_name(), file, line);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned = 0) {
    *device = (T*)host;
    return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
    return emu_pointer_attributes(out, pointer);
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = 0) { return cudaSuccess; }
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t = 0, unsigned = 4) { return cudaSuccess; }

// graphs.cpp. A stream that is captured stores its work in a graph.
EMU_EXPORT bool emu_captures(cudaStream_t stream);
EMU_EXPORT void emu_capture(cudaStream_t stream, const char* kind, void (*run)(void* work), void* work);
namespace emu {
template <class F> cudaError_t on_stream(cudaStream_t stream, const char* kind, F work) {
    if (!emu_captures(stream)) return work();
    emu_capture(stream, kind, [](void* f) { (*static_cast<F*>(f))(); }, new F(work));
    return cudaSuccess;
}
}  // namespace emu

// copies.cpp. A copy is rows of `width` bytes; element: bytes of a number of the program's pointers, 1 if unknown.
namespace emu {
// Size in a call. counts_elements, counts_bytes: true if the program's text shows that (programs/counts.py);
// of_pointer: it is sizeof(p) of a pointer p that the call copies from or to.
struct Bytes {
    size_t bytes;
    bool counts_elements = false, counts_bytes = false, of_pointer = false;
    template <class T> Bytes(T bytes, bool counts_elements = false, bool counts_bytes = false, bool of_pointer = false)
        : bytes(static_cast<size_t>(bytes)), counts_elements(counts_elements), counts_bytes(counts_bytes),
            of_pointer(of_pointer) {}
    operator size_t() const { return bytes; }
};
template <class T> Bytes elements(T count) { return {count, true}; }
template <class T> Bytes bytes(T count) { return {count, false, true}; }
template <class T> Bytes size_of(size_t bytes) { return {bytes, false, true, std::is_pointer_v<T>}; }
struct Copy {
    void* to;
    const void* from;
    size_t to_pitch, from_pitch;
    Bytes width;
    size_t height;
    cudaMemcpyKind kind;
    unsigned element;
    const char* call;
    bool is_async = false;
    cudaStream_t stream = 0;
};
}  // namespace emu
EMU_API emu_memcpy_host(const emu::Copy& copy, const char* file, int line);
EMU_API emu_memset_host(void* to, size_t pitch, int value, emu::Bytes width, size_t height, unsigned element,
    const char* call, cudaStream_t stream, const char* file, int line);
// element: bytes of a number of the symbol
EMU_API emu_symbol(const void* symbol, size_t bytes, unsigned element, size_t offset, void* other, int to_symbol,
    cudaMemcpyKind kind, emu::Bytes count, const char* file, int line);
template <class T, class F> cudaError_t cudaMemcpy(T* to, const F* from, emu::Bytes bytes, cudaMemcpyKind kind,
    EMU_HERE) {
    return emu_memcpy_host({(void*)to, from, bytes, bytes, bytes, 1, kind, emu::element_of<T>(), "cudaMemcpy"}, file,
        line);
}
template <class T, class F> cudaError_t cudaMemcpyAsync(T* to, const F* from, emu::Bytes bytes,
    cudaMemcpyKind kind = cudaMemcpyDefault, cudaStream_t stream = 0, EMU_HERE) {
    return emu::on_stream(stream, "copy", [=] {
        return emu_memcpy_host({(void*)to, from, bytes, bytes, bytes, 1, kind, emu::element_of<T>(),
            "cudaMemcpyAsync", true, stream}, file, line);
    });
}
// Of pointers from which no type can be deduced: to an array whose length is no constant, and NULL.
inline cudaError_t cudaMemcpy(void* to, const void* from, emu::Bytes bytes, cudaMemcpyKind kind, EMU_HERE) {
    return cudaMemcpy<void, void>(to, from, bytes, kind, file, line);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, emu::Bytes bytes,
    cudaMemcpyKind kind = cudaMemcpyDefault, cudaStream_t stream = 0, EMU_HERE) {
    return cudaMemcpyAsync<void, void>(to, from, bytes, kind, stream, file, line);
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind, EMU_HERE) {
    return emu_memcpy_host({to, from, to_pitch, from_pitch, width, height, kind, 1, "cudaMemcpy2D"}, file, line);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind, cudaStream_t stream = 0, EMU_HERE) {
    return emu::on_stream(stream, "copy", [=] {
        return emu_memcpy_host({to, from, to_pitch, from_pitch, width, height, kind, 1, "cudaMemcpy2DAsync", true,
            stream}, file, line);
    });
}
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes, EMU_HERE) {
    return emu_memcpy_host({to, from, bytes, bytes, bytes, 1, cudaMemcpyDeviceToDevice, 1, "cudaMemcpyPeer"}, file,
        line);
}
inline cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t = 0,
    EMU_HERE) {
    return cudaMemcpyPeer(to, 0, from, 0, bytes, file, line);
}
template <class T> cudaError_t cudaMemset(T* to, int value, emu::Bytes bytes, EMU_HERE) {
    return emu_memset_host((void*)to, bytes, value, bytes, 1, emu::element_of<T>(), "cudaMemset", 0, file, line);
}
template <class T> cudaError_t cudaMemsetAsync(T* to, int value, emu::Bytes bytes, cudaStream_t stream = 0,
    EMU_HERE) {
    return emu::on_stream(stream, "fill", [=] {
        return emu_memset_host((void*)to, bytes, value, bytes, 1, emu::element_of<T>(), "cudaMemsetAsync", stream, file,
            line);
    });
}
inline cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height, EMU_HERE) {
    return emu_memset_host(to, pitch, value, width, height, 1, "cudaMemset2D", 0, file, line);
}
inline cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent size, EMU_HERE) {
    for (size_t z = 0; z < size.depth; ++z)
        if (cudaError_t error = emu_memset_host((char*)to.ptr + z * to.pitch * to.ysize, to.pitch, value, size.width,
            size.height, 1, "cudaMemset3D", 0, file, line)) return error;
    return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
    cudaStream_t stream = 0, EMU_HERE) {
    return emu::on_stream(stream, "fill", [=] {
        return emu_memset_host(to, pitch, value, width, height, 1, "cudaMemset2DAsync", stream, file, line);
    });
}
template <class S> cudaError_t cudaMemcpyToSymbol(const S& symbol, const void* from, emu::Bytes bytes,
    size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice, EMU_HERE) {
    constexpr unsigned element = sizeof(std::remove_all_extents_t<S>);
    return emu_symbol(&symbol, sizeof(S), element, offset, (void*)from, 1, kind, bytes, file, line);
}
template <class S> cudaError_t cudaMemcpyToSymbolAsync(const S& symbol, const void* from, emu::Bytes bytes,
    size_t offset, cudaMemcpyKind kind, cudaStream_t = 0, EMU_HERE) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind, file, line);
}
template <class S> cudaError_t cudaMemcpyFromSymbol(void* to, const S& symbol, emu::Bytes bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyDeviceToHost, EMU_HERE) {
    constexpr unsigned element = sizeof(std::remove_all_extents_t<S>);
    return emu_symbol(&symbol, sizeof(S), element, offset, to, 0, kind, bytes, file, line);
}
template <class S> cudaError_t cudaMemcpyFromSymbolAsync(void* to, const S& symbol, emu::Bytes bytes, size_t offset,
    cudaMemcpyKind kind, cudaStream_t = 0, EMU_HERE) {
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind, file, line);
}
EMU_EXPORT void emu_note_symbol(const void* symbol, size_t bytes);
template <class T, class S> cudaError_t cudaGetSymbolAddress(T** pointer, const S& symbol) {
    emu_note_symbol(&symbol, sizeof(S));
    *pointer = (T*)&symbol;
    return cudaSuccess;
}
template <class S> cudaError_t cudaGetSymbolSize(size_t* bytes, const S&) {
    *bytes = sizeof(S);
    return cudaSuccess;
}

// streams.cpp
EMU_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
EMU_API cudaStreamDestroy(cudaStream_t stream, EMU_HERE);
EMU_API cudaStreamSynchronize(cudaStream_t stream, EMU_HERE);
EMU_API cudaStreamQuery(cudaStream_t stream, EMU_HERE);
EMU_API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
EMU_API cudaEventDestroy(cudaEvent_t event, EMU_HERE);
EMU_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0, EMU_HERE);
EMU_API cudaEventSynchronize(cudaEvent_t event, EMU_HERE);
EMU_API cudaEventQuery(cudaEvent_t event, EMU_HERE);
EMU_API cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last, EMU_HERE);
EMU_API cudaDeviceSynchronize(EMU_HERE);
EMU_EXPORT void emu_host_waits(cudaStream_t stream);  // a function of the host runs in a stream's order
inline cudaError_t cudaThreadSynchronize(EMU_HERE) { return cudaDeviceSynchronize(file, line); }
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithPriority(s, 0, 0); }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned f) {
    return cudaStreamCreateWithPriority(s, f, 0); }
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags = 0) {
    return cudaEventCreateWithFlags(event, flags); }
EMU_API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0, EMU_HERE);
inline cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) { return *flags = 0, cudaSuccess; }
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { return *priority = 0, cudaSuccess; }
// The function that a stream calls, from its begin to its end, with the line that gave it to the stream.
EMU_EXPORT void emu_host_function(const char* file, int line);
namespace emu {
struct HostFunction {
    HostFunction(const char* file, int line) { emu_host_function(file, line); }
    ~HostFunction() { emu_host_function(nullptr, 0); }
};
}  // namespace emu
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* data, EMU_HERE) {
    return emu::on_stream(stream, "host", [=] {
        emu_host_waits(stream);
        emu::HostFunction during(file, line);
        return call(data), cudaSuccess;
    });
}
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data, unsigned,
    EMU_HERE) {
    emu_host_waits(stream);
    emu::HostFunction during(file, line);
    return call(stream, cudaSuccess, data), cudaSuccess;
}

// device.cpp
EMU_API cudaGetDeviceCount(int* count);
EMU_API cudaGetDevice(int* device);
EMU_API cudaSetDevice(int device, EMU_HERE);
EMU_API cudaGetDeviceProperties(cudaDeviceProp* out, int device);
EMU_API cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
EMU_API cudaDeviceReset(EMU_HERE);
EMU_API cudaDeviceGetLimit(size_t* value, cudaLimit limit);
EMU_API cudaOccupancyMaxActiveBlocks(int* blocks, const void* kernel, int threads, size_t shared);
inline cudaError_t cudaThreadExit(EMU_HERE) { return cudaDeviceReset(file, line); }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDA_VERSION, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceFlags(unsigned* flags) { return *flags = 0, cudaSuccess; }
inline cudaError_t cudaHostGetFlags(unsigned* flags, void*) { return *flags = 0, cudaSuccess; }
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = 0, unsigned = 0, EMU_HERE) {
    return cudaEventRecord(event, stream, file, line); }
inline cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* out) {
    return *out = cudaSharedMemBankSizeFourByte, cudaSuccess; }
inline cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* out) {
    return *out = cudaFuncCachePreferNone, cudaSuccess; }
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaErrorPeerAccessUnsupported; }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaErrorPeerAccessNotEnabled; }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
    return *least = 0, *most = -5, cudaSuccess; }
inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }
