// Graphs: recorded from streams, or built node by node. A launch runs the nodes one after the other, each after those
// that it depends on.
#pragma once
#include "launch.h"

using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated
};
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess, cudaGraphExecUpdateError };
enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset, cudaGraphNodeTypeHost,
    cudaGraphNodeTypeGraph, cudaGraphNodeTypeEmpty
};
enum : unsigned long long {
    cudaGraphInstantiateFlagAutoFreeOnLaunch = 1, cudaGraphInstantiateFlagUpload = 2,
    cudaGraphInstantiateFlagDeviceLaunch = 4, cudaGraphInstantiateFlagUseNodePriority = 8
};
struct cudaKernelNodeParams {
    void* func;
    dim3 emu_gridDim, emu_blockDim;  // programs/rewrite.py writes these names
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
struct cudaHostNodeParams {
    cudaHostFn_t fn;
    void* userData;
};
struct cudaMemsetParams {
    void* dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
struct cudaGraphExecUpdateResultInfo {
    cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode, errorFromNode;
};

EMU_API cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal, EMU_HERE);
EMU_API cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph, EMU_HERE);
EMU_API cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
EMU_API cudaGraphCreate(cudaGraph_t* graph, unsigned flags = 0);
EMU_API cudaGraphDestroy(cudaGraph_t graph);
EMU_API cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph);
EMU_API emu_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph);
EMU_API cudaGraphExecDestroy(cudaGraphExec_t exec);
EMU_API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream, EMU_HERE);
EMU_API emu_update(cudaGraphExec_t exec, cudaGraph_t graph);
EMU_API cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    const cudaKernelNodeParams* kernel, EMU_HERE);
EMU_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel, EMU_HERE);
EMU_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* kernel,
    EMU_HERE);
EMU_API emu_add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, int type,
    void (*run)(void* work), void* work);
EMU_API cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
    size_t count);
EMU_API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
EMU_API cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    cudaGraph_t child);
EMU_API cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);

namespace emu {
template <class F> cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count, int type, F work) {
    return emu_add_node(node, graph, after, count, type, [](void* f) { (*static_cast<F*>(f))(); }, new F(work));
}
}  // namespace emu

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
    return emu_instantiate(exec, graph); }
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
    return emu_instantiate(exec, graph); }
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    return emu_instantiate(exec, graph); }
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t*,
    cudaGraphExecUpdateResult* result) {
    cudaError_t error = emu_update(exec, graph);
    *result = error ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess;
    return error;
}
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    return cudaGraphExecUpdate(exec, graph, nullptr, &info->result); }
inline cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count) {
    return emu::add_node(node, graph, after, count, cudaGraphNodeTypeEmpty, [] {});
}
inline cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count, const cudaHostNodeParams* host) {
    return emu::add_node(node, graph, after, count, cudaGraphNodeTypeHost, [h = *host] { h.fn(h.userData); });
}
inline cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count, const cudaMemsetParams* fill, EMU_HERE) {
    if (fill->elementSize != 1 && fill->value != fill->value % 256 * 0x1010101u) return cudaErrorNotSupported;
    return emu::add_node(node, graph, after, count, cudaGraphNodeTypeMemset, [f = *fill, file, line] {
        size_t width = f.width * f.elementSize;
        emu_memset_host(f.dst, f.height > 1 ? f.pitch : width, int(f.value & 255), width, f.height, 1,
            "cudaGraphAddMemsetNode", 0, file, line);
    });
}
inline cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind, EMU_HERE) {
    return emu::add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, [=] {
        emu_memcpy_host({to, from, bytes, bytes, bytes, 1, kind, 1, "cudaGraphAddMemcpyNode1D"}, file, line);
    });
}
inline cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
    size_t count, const cudaMemcpy3DParms* copy, EMU_HERE) {
    return emu::add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, [c = *copy, file, line] {
        emu_memcpy_3d(c, file, line); });
}
