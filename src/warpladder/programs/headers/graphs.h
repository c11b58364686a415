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
    cudaGraphNodeTypeGraph, cudaGraphNodeTypeEmpty, cudaGraphNodeTypeWaitEvent, cudaGraphNodeTypeEventRecord,
    cudaGraphNodeTypeMemAlloc = 10, cudaGraphNodeTypeMemFree
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
EMU_API emu_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
EMU_API cudaGraphExecDestroy(cudaGraphExec_t exec);
EMU_API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream, EMU_HERE);
EMU_API emu_update(cudaGraphExec_t exec, cudaGraph_t graph);
EMU_API cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    const cudaKernelNodeParams* kernel, EMU_HERE);
EMU_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel, EMU_HERE);
EMU_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* kernel,
    EMU_HERE);
EMU_API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* kernel);
EMU_API cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
    size_t count);
EMU_API cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
    size_t count);
EMU_API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
EMU_API cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
EMU_API cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count);
EMU_API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* before, size_t* count);
EMU_API cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* after, size_t* count);
EMU_API cudaGraphDestroyNode(cudaGraphNode_t node);
EMU_API cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone);
EMU_API cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled);
EMU_API cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled);
EMU_API cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child);
EMU_API cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child);
EMU_API cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    cudaGraph_t child);
EMU_API cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0) {
    return emu_instantiate(exec, graph, flags); }
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
    return emu_instantiate(exec, graph, 0); }
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    return emu_instantiate(exec, graph, flags); }
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t*,
    cudaGraphExecUpdateResult* result) {
    cudaError_t error = emu_update(exec, graph);
    *result = error ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess;
    return error;
}
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    return cudaGraphExecUpdate(exec, graph, nullptr, &info->result); }
