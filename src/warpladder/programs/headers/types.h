// Types of the CUDA runtime: errors, kinds of copies, properties of a device, handles.
#pragma once
#include <cstddef>

#include "emulator.h"
#include "errors.h"

#define CUDART_VERSION 12040
#define CUDA_VERSION 12040
#define CUDART_CB
#define CUDARTAPI

// Every error that programs meet here: name, number, sentence.
#define EMU_ERRORS(X)                                                                                \
    X(cudaSuccess, 0, "no error")                                                                    \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                  \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                 \
    X(cudaErrorInitializationError, 3, "initialization error")                                       \
    X(cudaErrorCudartUnloading, 4, "driver shutting down")                                           \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                            \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                      \
    X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                           \
    X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                   \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                      \
    X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")               \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                 \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                  \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                         \
    X(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")                            \
    X(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices") \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                \
    X(cudaErrorNotReady, 600, "device not ready")                                                    \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                      \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                 \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                        \
    X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                      \
    X(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                        \
    X(cudaErrorAssert, 710, "device-side assert triggered")                                          \
    X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
    X(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                         \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                     \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")              \
    X(cudaErrorNotSupported, 801, "operation not supported")                                         \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")   \
    X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture") \
    X(cudaErrorProfilerDisabled, 5, "profiler disabled while using external profiling tool")         \
    X(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                       \
    X(cudaErrorInvalidTexture, 18, "invalid texture reference")                                      \
    X(cudaErrorInvalidTextureBinding, 19, "texture is not bound to a pointer")                       \
    X(cudaErrorInvalidChannelDescriptor, 20, "invalid channel descriptor")                           \
    X(cudaErrorInvalidFilterSetting, 26, "filter mode not supported")                                \
    X(cudaErrorInvalidSurface, 37, "invalid surface reference")                                      \
    X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")          \
    X(cudaErrorPriorLaunchFailure, 53, "unspecified launch failure in prior launch")                 \
    X(cudaErrorLaunchMaxDepthExceeded, 65, "launch would exceed maximum depth of nested launches")   \
    X(cudaErrorSyncDepthExceeded, 68,\
        "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth")\
    X(cudaErrorLaunchPendingCountExceeded, 69,\
        "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount")\
    X(cudaErrorStartupFailure, 127, "initialization error")                                          \
    X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")\
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                         \
    X(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")                                      \
    X(cudaErrorFileNotFound, 301, "file not found")                                                  \
    X(cudaErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS")         \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")          \
    X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                        \
    X(cudaErrorSetOnActiveProcess, 708, "cannot set while device is active in this process")         \
    X(cudaErrorHardwareStackError, 714, "hardware stack error")                                      \
    X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                    \
    X(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space")   \
    X(cudaErrorInvalidPc, 718, "invalid program counter")                                            \
    X(cudaErrorNotPermitted, 800, "operation not permitted")                                         \
    X(cudaErrorSystemNotReady, 802, "system not yet initialized")                                    \
    X(cudaErrorStreamCaptureUnmatched, 903, "capture was not initiated in this stream")              \
    X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                     \
    X(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")\
    X(cudaErrorStreamCaptureImplicit, 906,\
        "operation would make the legacy stream depend on a capturing blocking stream")\
    X(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream")\
    X(cudaErrorTimeout, 909, "wait operation timed out")                                             \
    X(cudaErrorUnknown, 999, "unknown error")                                                        \
    EMU_FOREIGN_ERRORS(X)

enum cudaError {
#define EMU_ENUM(name, number, text) name = number,
    EMU_ERRORS(EMU_ENUM)
#undef EMU_ENUM
};
using cudaError_t = cudaError;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};

// Types of numbers in NVIDIA's libraries.
enum cudaDataType_t {
    CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_8I, CUDA_C_32F, CUDA_C_64F, CUDA_C_16F, CUDA_C_8I, CUDA_R_8U, CUDA_C_8U,
    CUDA_R_32I, CUDA_C_32I, CUDA_R_32U, CUDA_C_32U, CUDA_R_16BF, CUDA_C_16BF, CUDA_R_8F_E4M3 = 28, CUDA_R_8F_E5M2
};
using cudaDataType = cudaDataType_t;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaHostFn_t = void (*)(void* data);
using cudaStreamCallback_t = void (*)(cudaStream_t stream, cudaError_t status, void* data);
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
// of launches by a kernel: when its grid and all that it has launched have ended; at any time
#define cudaStreamTailLaunch ((cudaStream_t)0x3)
#define cudaStreamFireAndForget ((cudaStream_t)0x4)

enum : unsigned {
    cudaStreamDefault = 0, cudaStreamNonBlocking = 1,
    cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4,
    cudaEventRecordDefault = 0, cudaEventWaitDefault = 0,
    cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
    cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaHostRegisterIoMemory = 4,
    cudaHostRegisterReadOnly = 8,
    cudaMemAttachGlobal = 1, cudaMemAttachHost = 2, cudaMemAttachSingle = 4,
    cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8,
    cudaDeviceLmemResizeToMax = 16,
    cudaOccupancyDefault = 0, cudaOccupancyDisableCachingOverride = 1
};
constexpr int cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2;

enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy
};
enum cudaFuncCache {
    cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte
};
enum cudaSharedCarveout {
    cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1 = 0, cudaSharedmemCarveoutMaxShared = 100
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum cudaLimit {
    cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount, cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize
};
enum cudaComputeMode {
    cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ,
    cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ, cudaDevAttrMaxSharedMemoryPerBlock,
    cudaDevAttrTotalConstantMemory, cudaDevAttrWarpSize, cudaDevAttrMaxPitch, cudaDevAttrMaxRegistersPerBlock,
    cudaDevAttrClockRate, cudaDevAttrTextureAlignment, cudaDevAttrGpuOverlap, cudaDevAttrMultiProcessorCount,
    cudaDevAttrKernelExecTimeout, cudaDevAttrIntegrated, cudaDevAttrCanMapHostMemory, cudaDevAttrComputeMode,
    cudaDevAttrConcurrentKernels = 31, cudaDevAttrEccEnabled, cudaDevAttrPciBusId, cudaDevAttrPciDeviceId,
    cudaDevAttrMemoryClockRate = 36, cudaDevAttrGlobalMemoryBusWidth, cudaDevAttrL2CacheSize,
    cudaDevAttrMaxThreadsPerMultiProcessor, cudaDevAttrAsyncEngineCount, cudaDevAttrUnifiedAddressing,
    cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrStreamPrioritiesSupported = 78,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, cudaDevAttrMaxRegistersPerMultiprocessor,
    cudaDevAttrManagedMemory, cudaDevAttrHostNativeAtomicSupported = 86, cudaDevAttrPageableMemoryAccess = 88,
    cudaDevAttrConcurrentManagedAccess, cudaDevAttrComputePreemptionSupported, cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrCooperativeMultiDeviceLaunch, cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106, cudaDevAttrMaxPersistingL2CacheSize = 108,
    cudaDevAttrReservedSharedMemoryPerBlock = 111, cudaDevAttrMemoryPoolsSupported = 115
};

struct cudaUUID_t { char bytes[16]; };
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int maxTexture1D, maxTexture1DLinear, maxTexture2D[2], maxTexture3D[3], maxTexture1DLayered[2],
        maxTexture2DLayered[3];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount,
        unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize,
        maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported,
        canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    size_t reservedSharedMemPerBlock;
    int memoryPoolsSupported, clusterLaunch, accessPolicyMaxWindowSize;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes,
        preferredShmemCarveout;
};

struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
inline cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
inline cudaPitchedPtr make_cudaPitchedPtr(void* p, size_t pitch, size_t x, size_t y) { return {p, pitch, x, y}; }
