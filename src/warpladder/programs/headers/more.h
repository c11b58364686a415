// Calls that change nothing here: hints about caches and places, attributes of streams.
#pragma once
#include "pools.h"
#include "refused.h"

inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t = 0) {
    return cudaSuccess; }
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }

enum cudaAccessProperty { cudaAccessPropertyNormal, cudaAccessPropertyStreaming, cudaAccessPropertyPersisting };
struct cudaAccessPolicyWindow {
    void* base_ptr;
    size_t num_bytes;
    float hitRatio;
    cudaAccessProperty hitProp, missProp;
};
enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore, cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeCooperative,
    cudaLaunchAttributeSynchronizationPolicy, cudaLaunchAttributeClusterDimension,
    cudaLaunchAttributeClusterSchedulingPolicyPreference, cudaLaunchAttributeProgrammaticStreamSerialization,
    cudaLaunchAttributeProgrammaticEvent, cudaLaunchAttributePriority, cudaLaunchAttributeMemSyncDomainMap,
    cudaLaunchAttributeMemSyncDomain
};
enum cudaSynchronizationPolicy { cudaSyncPolicyAuto = 1, cudaSyncPolicySpin, cudaSyncPolicyYield,
    cudaSyncPolicyBlockingSync };
union cudaLaunchAttributeValue {
    cudaAccessPolicyWindow accessPolicyWindow;
    int cooperative, priority, programmaticStreamSerializationAllowed;
    cudaSynchronizationPolicy syncPolicy;
    struct { unsigned x, y, z; } clusterDim;
};
using cudaStreamAttrValue = cudaLaunchAttributeValue;
using cudaStreamAttrID = cudaLaunchAttributeID;
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributeSynchronizationPolicy cudaLaunchAttributeSynchronizationPolicy
#define cudaStreamAttributePriority cudaLaunchAttributePriority
inline cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) {
    return cudaSuccess; }
inline cudaError_t cudaStreamGetAttribute(cudaStream_t, cudaStreamAttrID, cudaStreamAttrValue* value) {
    return *value = {}, cudaSuccess; }
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported,
    cudaDevP2PAttrCudaArrayAccessSupported
};
inline cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) { return *value = 0,
    cudaSuccess; }
inline cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
    return snprintf(text, size_t(length), "0000:00:00.0"), cudaSuccess; }
inline cudaError_t cudaDeviceGetByPCIBusId(int* device, const char*) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaInitDevice(int, unsigned, unsigned) { return cudaSuccess; }
inline cudaError_t cudaSetValidDevices(int*, int) { return cudaSuccess; }
inline cudaError_t cudaStreamGetDevice(cudaStream_t, int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    return *id = (unsigned long long)stream, cudaSuccess; }

// Memory and events of other processes.
struct cudaIpcMemHandle_t { char reserved[64]; };
struct cudaIpcEventHandle_t { char reserved[64]; };
enum : unsigned { cudaIpcMemLazyEnablePeerAccess = 1 };
#define EMU_OF_PROCESSES(name) EMU_REFUSED(cudaError_t, name, "memory that processes share")
EMU_OF_PROCESSES(cudaIpcGetMemHandle) EMU_OF_PROCESSES(cudaIpcOpenMemHandle)
EMU_OF_PROCESSES(cudaIpcCloseMemHandle) EMU_OF_PROCESSES(cudaIpcGetEventHandle)
EMU_OF_PROCESSES(cudaIpcOpenEventHandle)
#undef EMU_OF_PROCESSES

// Names of the driver API that headers mention; its functions are not emulated, but for those that change nothing.
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_UNKNOWN = 999 };
inline CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
inline CUresult cuDriverGetVersion(int* version) { return cudaDriverGetVersion(version), CUDA_SUCCESS; }
