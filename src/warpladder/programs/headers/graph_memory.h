// Nodes of a graph that allocate and free memory.
#pragma once
#include "graph_nodes.h"
#include "pools.h"

struct cudaMemAllocNodeParams {
    cudaMemPoolProps poolProps;
    const cudaMemAccessDesc* accessDescs;
    size_t accessDescCount, bytesize;
    void* dptr;
};
enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent, cudaGraphMemAttrUsedMemHigh, cudaGraphMemAttrReservedMemCurrent,
    cudaGraphMemAttrReservedMemHigh
};
EMU_API cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    cudaMemAllocNodeParams* parameters, EMU_HERE);
EMU_API cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    void* pointer, EMU_HERE);
EMU_API cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType what, void* value);
EMU_API cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType what, void* value);
EMU_API cudaDeviceGraphMemTrim(int device);
inline cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
    return emu_node_parameters(node, cudaGraphNodeTypeMemAlloc, parameters, sizeof *parameters); }
inline cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
    return emu_node_parameters(node, cudaGraphNodeTypeMemFree, pointer, sizeof(void*)); }
