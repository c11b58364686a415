// Launches with attributes, as that of clusters: blocks that run at the same time and see each other's shared memory.
#pragma once
#include "launch.h"
#include "more.h"

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    char pad[4];
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 emu_gridDim, emu_blockDim;  // programs/rewrite.py writes these names
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};
EMU_UNSEEN inline emu::Config emu_config(const cudaLaunchConfig_t& c, const char* file, int line) {
    emu::Config out(c.emu_gridDim, c.emu_blockDim, c.dynamicSmemBytes, c.stream, file, line);
    for (unsigned i = 0; i < c.numAttrs; ++i) {
        const cudaLaunchAttribute& a = c.attrs[i];
        if (a.id == cudaLaunchAttributeClusterDimension)
            out.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
        if (a.id == cudaLaunchAttributeCooperative) out.cooperative = a.val.cooperative;
    }
    return out;
}
template <class... P, class... A> cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
    void (*kernel)(P...), A&&... arguments) {
    const emu::Config c = emu_config(*config, __builtin_FILE(), __builtin_LINE());
    emu::start(kernel, [=](auto&... a) { kernel(a...); }, emu::known_name(kernel), 0, c, std::forward<A>(arguments)...);
    return cudaPeekAtLastError();
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments,
    EMU_HERE) {
    emu_launch_address(kernel, emu_config(*config, file, line), arguments);
    return cudaPeekAtLastError();
}
// Launches of a stream follow each other here.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
template <class K> cudaError_t cudaOccupancyMaxActiveClusters(int* count, K*, const cudaLaunchConfig_t* config) {
    unsigned blocks = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            blocks = config->attrs[i].val.clusterDim.x * config->attrs[i].val.clusterDim.y
                * config->attrs[i].val.clusterDim.z;
    int processors = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    return *count = processors / int(blocks), cudaSuccess;
}
template <class K> cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, K*, const cudaLaunchConfig_t*) {
    return *size = 8, cudaSuccess; }
