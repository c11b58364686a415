// Checks of errors and choice of a device as the helper files of NVIDIA's samples have them.
#pragma once
#include <algorithm>

#include "helper_string.h"

#ifndef MAX
#define MAX(a, b) (a > b ? a : b)
#endif
#ifndef MIN
#define MIN(a, b) (a < b ? a : b)
#endif
#define DEVICE_RESET cudaDeviceReset();
#define checkCudaErrors(call) emu::checked((call), #call, __FILE__, __LINE__)
#define getLastCudaError(message) emu::checked_last(message, __FILE__, __LINE__, true)
#define printLastCudaError(message) emu::checked_last(message, __FILE__, __LINE__, false)

namespace emu {
// A library's status too: 0 is success.
template <class T> void checked(T status, const char* call, const char* file, int line) {
    if (!status) return;
    const char* name = "";
    if constexpr (std::is_same_v<T, cudaError_t>) name = cudaGetErrorName(status);
    fprintf(stderr, "CUDA error at %s:%d code=%u(%s) \"%s\"\n", file, line, unsigned(status), name, call);
    exit(EXIT_FAILURE);
}
inline void checked_last(const char* message, const char* file, int line, bool ends) {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s: (%d) %s\n", file, line, message, int(error), cudaGetErrorString(error));
    if (ends) exit(EXIT_FAILURE);
}
}  // namespace emu

inline const char* _cudaGetErrorEnum(cudaError_t error) { return cudaGetErrorName(error); }
inline int ftoi(float value) { return int(value >= 0 ? value + 0.5f : value - 0.5f); }

// Lanes for float arithmetic of a multiprocessor, and the name of its generation.
inline int _ConvertSMVer2Cores(int major, int minor) {
    if (major < 7) return major == 6 && minor == 0 ? 64 : major == 3 ? 192 : 128;
    return major == 7 || (major == 8 && minor == 0) ? 64 : 128;
}
inline const char* _ConvertSMVer2ArchName(int major, int minor) {
    if (major == 7) return minor == 5 ? "Turing" : "Volta";
    if (major == 8) return minor == 9 ? "Ada" : "Ampere";
    return major == 9 ? "Hopper" : major > 9 ? "Blackwell" : major == 6 ? "Pascal" : major == 5 ? "Maxwell" : "Kepler";
}
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int gpuDeviceInit(int device) {
    checkCudaErrors(cudaSetDevice(device));
    return device;
}
inline int findCudaDevice(int count, const char** arguments) {
    int device = checkCmdLineFlag(count, arguments, "device") ? getCmdLineArgumentInt(count, arguments, "device") : 0;
    cudaDeviceProp properties;
    checkCudaErrors(cudaSetDevice(device));
    checkCudaErrors(cudaGetDeviceProperties(&properties, device));
    printf("GPU Device %d: \"%s\" with compute capability %d.%d\n\n", device,
        _ConvertSMVer2ArchName(properties.major, properties.minor), properties.major, properties.minor);
    return device;
}
inline bool checkCudaCapabilities(int major, int minor) {
    cudaDeviceProp properties;
    checkCudaErrors(cudaGetDeviceProperties(&properties, 0));
    return properties.major > major || (properties.major == major && properties.minor >= minor);
}
