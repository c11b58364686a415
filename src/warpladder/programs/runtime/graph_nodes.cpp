// Questions on the nodes of a graph, and changes of its edges, its nodes and the steps of an executable.
#include "../headers/graph_nodes.h"
#include "host.h"

namespace emu {

// The edges of a captured graph are not recorded, so that questions on them cannot be answered.
static cudaError_t has_edges(const CUgraph_st* graph) {
    return graph->is_captured ? failed(cudaErrorNotSupported) : cudaSuccess; }

// Gives a program a list, or the first of it, as it asks: count is the list's length, and the room where there is one.
static cudaError_t given(const std::vector<cudaGraphNode_t>& found, cudaGraphNode_t* out, size_t* count) {
    for (size_t i = 0; out && i < *count; ++i) out[i] = i < found.size() ? found[i] : nullptr;
    if (!out || *count > found.size()) *count = found.size();
    return returned(cudaSuccess);
}

}  // namespace emu

EMU_API cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i]->after.push_back(from[i]);
    return returned(cudaSuccess);
}
EMU_API cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
    size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (!std::erase(to[i]->after, from[i])) return failed(cudaErrorInvalidValue);
    return returned(cudaSuccess);
}
EMU_API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    std::vector<cudaGraphNode_t> found;
    for (auto& node : graph->nodes) found.push_back(node.get());
    return given(found, nodes, count);
}
EMU_API cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    if (has_edges(graph)) return cudaErrorNotSupported;
    std::vector<cudaGraphNode_t> found;
    for (auto& node : graph->nodes)
        if (node->after.empty()) found.push_back(node.get());
    return given(found, nodes, count);
}
EMU_API cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
    if (has_edges(graph)) return cudaErrorNotSupported;
    std::vector<cudaGraphNode_t> first, second;
    for (auto& node : graph->nodes)
        for (auto* before : node->after) first.push_back(before), second.push_back(node.get());
    size_t room = *count;
    given(first, from, &room);
    return given(second, to, count);
}
EMU_API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* before, size_t* count) {
    return has_edges(node->graph) ? cudaErrorNotSupported : given(node->after, before, count); }
EMU_API cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* after, size_t* count) {
    if (has_edges(node->graph)) return cudaErrorNotSupported;
    std::vector<cudaGraphNode_t> found;
    for (auto& other : node->graph->nodes)
        if (std::count(other->after.begin(), other->after.end(), node)) found.push_back(other.get());
    return given(found, after, count);
}
EMU_API cudaGraphDestroyNode(cudaGraphNode_t node) {
    Lock lock;
    auto& nodes = node->graph->nodes;
    for (auto& other : nodes) std::erase(other->after, node);
    std::erase_if(nodes, [=](const Node& each) { return each.get() == node; });
    return returned(cudaSuccess);
}
EMU_API cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
    for (auto& each : clone->nodes)
        if (each->original == original) return *node = each.get(), returned(cudaSuccess);
    return failed(cudaErrorInvalidValue);
}
EMU_API cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
    auto* step = step_of(exec, node);
    if (!step || node->type > cudaGraphNodeTypeMemset) return failed(cudaErrorInvalidValue);
    return step->is_enabled = enabled, returned(cudaSuccess);
}
EMU_API cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
    auto* step = step_of(exec, node);
    if (!step || node->type > cudaGraphNodeTypeMemset) return failed(cudaErrorInvalidValue);
    return *enabled = step->is_enabled, returned(cudaSuccess);
}
EMU_API cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    cudaGraph_t child) {
    Lock lock;
    *node = added(graph, cudaGraphNodeTypeGraph, nullptr, after, count);
    return cudaGraphClone(&(*node)->child, child);
}
EMU_API cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
    if (!node->child) return failed(cudaErrorInvalidValue);
    return *child = node->child, returned(cudaSuccess);
}
EMU_API cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child) {
    auto* step = step_of(exec, node);
    if (!step || node->type != cudaGraphNodeTypeGraph) return failed(cudaErrorInvalidValue);
    return step->run = child_work(child), returned(cudaSuccess);
}
EMU_API cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    return *type = cudaGraphNodeType(node->type), returned(cudaSuccess); }
