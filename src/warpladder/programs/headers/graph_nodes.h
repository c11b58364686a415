// Nodes of a graph besides kernels: what each does, and its parameters, which a program reads and changes, in the graph
// or in an executable alone.
#pragma once
#include "graphs.h"
#include "textures.h"

namespace emu {
struct NodeWork {  // parameters are copied while they live, in the call that gets this
    int type;
    void (*run)(void* work);
    void* work;
    const void* parameters;
    size_t bytes;
};
}  // namespace emu
EMU_API emu_add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    const emu::NodeWork& work);
// exec: null for the graph itself
EMU_API emu_set_node(cudaGraphExec_t exec, cudaGraphNode_t node, const emu::NodeWork& work);
EMU_API emu_node_parameters(cudaGraphNode_t node, int type, void* parameters, size_t bytes);

namespace emu {
template <class P, class F> NodeWork node_work(cudaGraphNodeType type, const P& parameters, F run) {
    return {type, [](void* f) { (*static_cast<F*>(f))(); }, new F(run), &parameters, sizeof(P)};
}
struct LinearCopy {
    void* to;
    const void* from;
    size_t bytes;
    cudaMemcpyKind kind;
};
inline constexpr int no_parameters = 0;
inline NodeWork nothing() { return node_work(cudaGraphNodeTypeEmpty, no_parameters, [] {}); }
inline bool is_byte(const cudaMemsetParams& p) {
    return p.elementSize == 1 || p.value == p.value % 256 * (p.elementSize == 2 ? 0x101u : 0x1010101u); }
inline NodeWork fill(const cudaMemsetParams& p, const char* file, int line) {
    return node_work(cudaGraphNodeTypeMemset, p, [f = p, file, line] {
        const char* call = "cudaGraphAddMemsetNode";
        size_t width = f.width * f.elementSize;
        if (is_byte(f))
            return void(emu_memset_host(f.dst, f.height > 1 ? f.pitch : width, int(f.value & 255), width, f.height, 1,
                call, 0, file, line));
        std::vector<char> row(width);
        for (size_t at = 0; at < width; ++at) row[at] = reinterpret_cast<const char*>(&f.value)[at % f.elementSize];
        for (size_t y = 0; y < f.height; ++y)
            emu_memcpy_host({(char*)f.dst + y * f.pitch, row.data(), width, width, width, 1, cudaMemcpyHostToDevice, 1,
                call, true}, file, line);
    });
}
inline NodeWork copy(const cudaMemcpy3DParms& p, const char* file, int line) {
    return node_work(cudaGraphNodeTypeMemcpy, p, [c = p, file, line] { emu_memcpy_3d(c, file, line); });
}
inline NodeWork copy(const LinearCopy& p, const char* file, int line) {
    return node_work(cudaGraphNodeTypeMemcpy, p, [c = p, file, line] {
        emu_memcpy_host({c.to, c.from, c.bytes, c.bytes, c.bytes, 1, c.kind, 1, "cudaGraphAddMemcpyNode1D"}, file,
            line);
    });
}
inline NodeWork call(const cudaHostNodeParams& p, const char* file, int line) {
    return node_work(cudaGraphNodeTypeHost, p, [h = p, file, line] {
        emu_host_waits(0);
        HostFunction during(file, line);
        h.fn(h.userData);
    });
}
inline NodeWork record(const cudaEvent_t& event, const char* file, int line) {
    return node_work(cudaGraphNodeTypeEventRecord, event, [event, file, line] {
        cudaEventRecord(event, 0, file, line); });
}
inline NodeWork wait(const cudaEvent_t& event, const char* file, int line) {
    return node_work(cudaGraphNodeTypeWaitEvent, event, [event, file, line] {
        cudaStreamWaitEvent(0, event, 0, file, line); });
}
}  // namespace emu

#define EMU_ADDS cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count
inline cudaError_t cudaGraphAddEmptyNode(EMU_ADDS) {
    return emu_add_node(node, graph, after, count, emu::nothing()); }
inline cudaError_t cudaGraphAddHostNode(EMU_ADDS, const cudaHostNodeParams* p, EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::call(*p, file, line)); }
inline cudaError_t cudaGraphAddMemsetNode(EMU_ADDS, const cudaMemsetParams* p, EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::fill(*p, file, line));
}
inline cudaError_t cudaGraphAddMemcpyNode(EMU_ADDS, const cudaMemcpy3DParms* p, EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::copy(*p, file, line)); }
inline cudaError_t cudaGraphAddMemcpyNode1D(EMU_ADDS, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
    EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::copy(emu::LinearCopy{to, from, bytes, kind}, file, line)); }
template <class S> cudaError_t cudaGraphAddMemcpyNodeToSymbol(EMU_ADDS, const S& symbol, const void* from, size_t bytes,
    size_t offset, cudaMemcpyKind kind, EMU_HERE) {
    auto run = [=, to = &symbol] {
        cudaMemcpyToSymbol(*to, from, bytes, offset, kind, file, line); };
    return emu_add_node(node, graph, after, count, emu::node_work(cudaGraphNodeTypeMemcpy, emu::no_parameters, run));
}
template <class S> cudaError_t cudaGraphAddMemcpyNodeFromSymbol(EMU_ADDS, void* to, const S& symbol, size_t bytes,
    size_t offset, cudaMemcpyKind kind, EMU_HERE) {
    auto run = [=, from = &symbol] {
        cudaMemcpyFromSymbol(to, *from, bytes, offset, kind, file, line); };
    return emu_add_node(node, graph, after, count, emu::node_work(cudaGraphNodeTypeMemcpy, emu::no_parameters, run));
}
inline cudaError_t cudaGraphAddEventRecordNode(EMU_ADDS, cudaEvent_t event, EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::record(event, file, line)); }
inline cudaError_t cudaGraphAddEventWaitNode(EMU_ADDS, cudaEvent_t event, EMU_HERE) {
    return emu_add_node(node, graph, after, count, emu::wait(event, file, line)); }
#undef EMU_ADDS

// Functions that read a node's parameters, change them, and change them in an executable graph alone.
#define EMU_PARAMETERS(kind, type, P, work)                                                                            \
    inline cudaError_t cudaGraph##kind##NodeGetParams(cudaGraphNode_t node, P* p) {                                    \
        return emu_node_parameters(node, type, p, sizeof(P)); }                                                        \
    inline cudaError_t cudaGraph##kind##NodeSetParams(cudaGraphNode_t node, const P* p, EMU_HERE) {                    \
        return (void)file, (void)line, emu_set_node(nullptr, node, work); }                                            \
    inline cudaError_t cudaGraphExec##kind##NodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const P* p,      \
        EMU_HERE) { return (void)file, (void)line, emu_set_node(exec, node, work); }
EMU_PARAMETERS(Host, cudaGraphNodeTypeHost, cudaHostNodeParams, emu::call(*p, file, line))
EMU_PARAMETERS(Memcpy, cudaGraphNodeTypeMemcpy, cudaMemcpy3DParms, emu::copy(*p, file, line))
EMU_PARAMETERS(Memset, cudaGraphNodeTypeMemset, cudaMemsetParams, emu::fill(*p, file, line))
#undef EMU_PARAMETERS
inline cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
    cudaMemcpyKind kind, EMU_HERE) {
    return emu_set_node(nullptr, node, emu::copy(emu::LinearCopy{to, from, bytes, kind}, file, line)); }
inline cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
    const void* from, size_t bytes, cudaMemcpyKind kind, EMU_HERE) {
    return emu_set_node(exec, node, emu::copy(emu::LinearCopy{to, from, bytes, kind}, file, line)); }
#define EMU_EVENTS(kind, type, work)                                                                                   \
    inline cudaError_t cudaGraph##kind##NodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {                       \
        return emu_node_parameters(node, type, event, sizeof *event); }                                                \
    inline cudaError_t cudaGraph##kind##NodeSetEvent(cudaGraphNode_t node, cudaEvent_t event, EMU_HERE) {              \
        return emu_set_node(nullptr, node, work(event, file, line)); }                                                 \
    inline cudaError_t cudaGraphExec##kind##NodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,                   \
        cudaEvent_t event, EMU_HERE) { return emu_set_node(exec, node, work(event, file, line)); }
EMU_EVENTS(EventRecord, cudaGraphNodeTypeEventRecord, emu::record)
EMU_EVENTS(EventWait, cudaGraphNodeTypeWaitEvent, emu::wait)
#undef EMU_EVENTS
