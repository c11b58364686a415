// Graphs: nodes in the order in which they were added, and what each depends on.
#include "../headers/graph_nodes.h"
#include "host.h"

struct CUgraphNode_st {
    int type;
    std::function<void()> run;
    std::vector<CUgraphNode_st*> after;  // of captured work: the last of each stream that its own one has waited for
    CUgraph_st* graph = nullptr;
    std::vector<char> parameters;             // as the program gave them; none of captured work
    std::vector<std::vector<char>> arguments;  // of a kernel
    std::vector<void*> pointers;               // to them
    CUgraph_st* child = nullptr;
    CUgraphNode_st* original = nullptr;  // of a node in a clone
    void* memory = nullptr;              // that it allocates or frees
    const void* stream = nullptr;        // in which it was captured, and its number there
    unsigned number = 0;
};
using Node = std::shared_ptr<CUgraphNode_st>;
struct CUgraph_st {
    std::vector<Node> nodes;
    bool is_relaxed = false, is_spoilt = false;  // as it is captured: what other calls may do, and that one did it
    bool is_captured = false;                    // its nodes are in their order, and have no edges
    CUstream_st* origin = nullptr;               // in which its capture began
};
// Steps in their order. What each runs is a copy: the graph may be changed later.
struct CUgraphExec_st {
    struct Step {
        Node node;
        std::function<void()> run;
        std::vector<CUgraphNode_st*> after;
        bool is_enabled = true;
    };
    std::vector<Step> steps;
    bool frees_first = false;  // memory of its last launch that is still allocated
};

namespace emu {

static auto& executables = *new std::set<CUgraphExec_st*>;

static bool is_captured_now(const CUgraph_st* graph) {
    auto all = every_stream();
    return std::any_of(all.begin(), all.end(), [=](CUstream_st* each) { return each->captured == graph; });
}
// True for a call that waits for a captured stream, or with the default stream for all of
// them: it fails, and so does the end of the capture. Nothing has run that it could wait for.
static bool spoils_capture(const char* call, cudaStream_t stream, Spot place) {
    bool spoils = false;
    for (auto* each : every_stream()) {
        if (!each->captured || (body_of(stream) ? each != body_of(stream) : each->captured->is_relaxed)) continue;
        each->captured->is_spoilt = spoils = true;
    }
    if (!spoils) return false;
    report("problem", "capture", std::string(call) + " at {0} while a stream is captured: what is captured runs when "
        "its graph is launched, so there is nothing to wait for, and the capture is lost", "", place);
    failed(cudaErrorStreamCaptureUnsupported);
    return true;
}
// True for work of the default stream, which waits for a captured one that is not cudaStreamNonBlocking.
bool joins_captures(const std::string& work, cudaStream_t stream, Spot place) {
    if (body_of(stream) || is_graph_running()) return false;
    bool joins = false;
    for (auto* each : every_stream())
        if (each->captured && each->is_blocking) each->captured->is_spoilt = joins = true;
    if (!joins) return false;
    report("problem", "capture", work + " at {0} is of the default stream while another one is captured: it belongs to "
        "no graph, and the capture is lost; give it the captured stream", "", place);
    failed(cudaErrorStreamCaptureImplicit);
    return true;
}
bool spoils_captures(const char* call, Spot place) { return spoils_capture(call, nullptr, place); }

static CUgraphNode_st* added(CUgraph_st* graph, int type, std::function<void()> run, const cudaGraphNode_t* after,
    size_t count) {
    graph->nodes.push_back(std::make_shared<CUgraphNode_st>(CUgraphNode_st{type, std::move(run), {after,
        after + count}, graph}));
    return graph->nodes.back().get();
}

// Adds a piece of work to the graph that a stream is captured in.
static CUgraphNode_st* capture(cudaStream_t stream, int type, std::function<void()> run) {
    CUstream_st* own = body_of(stream);
    std::vector<CUgraphNode_st*> after;
    for (auto& [other, number] : own->before)
        for (auto node = own->captured->nodes.rbegin(); node != own->captured->nodes.rend(); ++node)
            if ((*node)->stream == other && (*node)->number <= number) {
                after.push_back(node->get());
                break;
            }
    CUgraphNode_st* node = added(own->captured, type, std::move(run), after.data(), after.size());
    return node->stream = own, node->number = ++own->before[own], node;
}

// Nodes in an order in which each comes after those that it depends on.
static std::vector<Node> ordered(const CUgraph_st& graph) {
    std::vector<Node> out, left = graph.nodes;
    std::set<CUgraphNode_st*> done;
    while (!left.empty()) {
        auto next = std::find_if(left.begin(), left.end(), [&](auto& node) {
            return std::all_of(node->after.begin(), node->after.end(), [&](auto* each) { return done.count(each); });
        });
        if (next == left.end()) return {};
        done.insert(next->get());
        out.push_back(*next);
        left.erase(next);
    }
    return out;
}

// Launch of a kernel by its address, with a copy of its arguments.
static std::function<void()> launch_of(const cudaKernelNodeParams& k, Spot place) {
    auto found = kernels.find(k.func);
    if (found == kernels.end() || (!k.kernelParams && !found->second.sizes.empty())) return nullptr;
    std::vector<std::vector<char>> values;
    for (size_t i = 0; i < found->second.sizes.size(); ++i)
        values.emplace_back((char*)k.kernelParams[i], (char*)k.kernelParams[i] + found->second.sizes[i]);
    Config config(k.emu_gridDim, k.emu_blockDim, k.sharedMemBytes, nullptr, place.file, place.line);
    return [values, config, kernel = k.func]() mutable {
        std::vector<void*> arguments;
        for (auto& value : values) arguments.push_back(value.data());
        emu_launch_address(kernel, config, arguments.data());
    };
}

// The parameters that a program gave for a kernel's node, for its questions.
static void keep(CUgraphNode_st& node, const cudaKernelNodeParams& k) {
    node.parameters.assign((const char*)&k, (const char*)(&k + 1));
    node.arguments.clear(), node.pointers.clear();
    for (size_t i = 0; i < kernels.at(k.func).sizes.size(); ++i)
        node.arguments.emplace_back((char*)k.kernelParams[i], (char*)k.kernelParams[i] + kernels.at(k.func).sizes[i]);
    for (auto& value : node.arguments) node.pointers.push_back(value.data());
    reinterpret_cast<cudaKernelNodeParams*>(node.parameters.data())->kernelParams = node.pointers.data();
}

static CUgraphExec_st::Step* step_of(cudaGraphExec_t exec, cudaGraphNode_t node) {
    if (!executables.count(exec)) return nullptr;
    for (auto& step : exec->steps)
        if (step.node.get() == node) return &step;
    return nullptr;
}

static std::function<void()> child_work(cudaGraph_t child);
static cudaError_t room_for(const CUgraphExec_st& exec, Spot place);  // graph_memory.cpp
// The work of a graph's nodes as they are now.
static std::vector<CUgraphExec_st::Step> steps(const std::vector<Node>& nodes) {
    std::vector<CUgraphExec_st::Step> out;
    for (auto& node : nodes) out.push_back({node, node->child ? child_work(node->child) : node->run,
        node->after});
    return out;
}
static std::function<void()> child_work(cudaGraph_t child) {
    return [all = steps(ordered(*child))] { for (auto& each : all) each.run(); }; }

// Error of cudaStreamEndCapture in a stream: it must be the capture's own, and must have waited for all others.
static cudaError_t capture_error(const CUgraph_st& graph, CUstream_st* stream, Spot place) {
    if (graph.is_spoilt) return cudaErrorStreamCaptureInvalidated;
    if (graph.origin != stream)
        return report("problem", "capture", "cudaStreamEndCapture at {0} gets another stream than the one in which the "
            "capture began: the capture is lost", "", place), cudaErrorStreamCaptureUnmatched;
    for (auto* each : every_stream())
        if (each->captured == &graph && stream->before[each] < each->before[each])
            return report("problem", "capture", "cudaStreamEndCapture at {0} ends a capture to which another stream's "
                "work belongs that the first stream does not wait for: the capture is lost; record an event after that "
                "work, and let the first stream wait for it (cudaStreamWaitEvent)", "", place),
                cudaErrorStreamCaptureUnjoined;
    return cudaSuccess;
}

static cudaError_t no_kernel(Spot place) {
    report("problem", "launch", "the graph's node at {0} gets an address that is no kernel's", "", place);
    return failed(cudaErrorInvalidDeviceFunction);
}

}  // namespace emu

EMU_EXPORT bool emu_captures(cudaStream_t stream) { return is_stream(stream) && body_of(stream)
    && body_of(stream)->captured; }
EMU_EXPORT void emu_capture(cudaStream_t stream, const char* kind, void (*run)(void*), void* work) {
    Lock lock;
    int type = !strcmp(kind, "kernel") ? cudaGraphNodeTypeKernel : !strcmp(kind, "copy") ? cudaGraphNodeTypeMemcpy
        : !strcmp(kind, "fill") ? cudaGraphNodeTypeMemset : cudaGraphNodeTypeHost;
    capture(stream, type, [=] { run(work); });
}
EMU_API cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode, const char* file, int line) {
    EMU_KNOWN(is_stream(stream), "cudaStreamBeginCapture");
    CUstream_st* own = body_of(stream);
    if (!own || own->captured) {
        report("problem", "capture", std::string("cudaStreamBeginCapture at {0} gets ") + (own ? "a stream that is "
            "captured already" : "the default stream, which cannot be captured: make a stream"), "", {file, line});
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    own->captured = new CUgraph_st;
    own->captured->is_captured = true;
    own->captured->origin = own;
    own->before.clear();
    own->captured->is_relaxed = mode == cudaStreamCaptureModeRelaxed;
    return cudaSuccess;
}
EMU_API cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph, const char* file, int line) {
    EMU_KNOWN(emu_captures(stream), "cudaStreamEndCapture");
    *graph = body_of(stream)->captured;
    const cudaError_t error = capture_error(**graph, body_of(stream), {file, line});
    for (auto* each : every_stream())
        if (each->captured == *graph) each->captured = nullptr;
    if (error == cudaSuccess) return cudaSuccess;
    delete *graph;
    *graph = nullptr;
    return failed(error);
}
EMU_API cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = emu_captures(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
EMU_API cudaGraphCreate(cudaGraph_t* graph, unsigned) { return *graph = new CUgraph_st, returned(cudaSuccess); }
EMU_API cudaGraphDestroy(cudaGraph_t graph) { return delete graph, returned(cudaSuccess); }
EMU_API cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
    Lock lock;
    *clone = new CUgraph_st;
    (*clone)->is_captured = graph->is_captured;
    std::map<CUgraphNode_st*, CUgraphNode_st*> copies;
    for (auto& node : graph->nodes) {
        auto copy = std::make_shared<CUgraphNode_st>(*node);
        copy->graph = *clone, copy->original = node.get();
        if (copy->type == cudaGraphNodeTypeKernel && !copy->parameters.empty())
            keep(*copy, *reinterpret_cast<const cudaKernelNodeParams*>(node->parameters.data()));
        if (node->child) cudaGraphClone(&copy->child, node->child);
        copies[node.get()] = copy.get();
        (*clone)->nodes.push_back(copy);
    }
    for (auto& node : (*clone)->nodes)
        for (auto& before : node->after) before = copies[before];
    return returned(cudaSuccess);
}
EMU_API emu_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    Lock lock;
    if (!graph) return failed(cudaErrorInvalidValue);
    auto nodes = ordered(*graph);
    if (nodes.size() != graph->nodes.size()) return failed(cudaErrorInvalidValue);
    host().has_streams = true;
    const bool frees_first = flags & cudaGraphInstantiateFlagAutoFreeOnLaunch;
    executables.insert(*exec = new CUgraphExec_st{steps(nodes), frees_first});
    return returned(cudaSuccess);
}
EMU_API cudaGraphExecDestroy(cudaGraphExec_t exec) {
    Lock lock;
    if (!executables.erase(exec)) return failed(cudaErrorInvalidValue);
    return delete exec, returned(cudaSuccess);
}
EMU_API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream, const char* file, int line) {
    EMU_KNOWN(is_stream(stream) && executables.count(exec), "cudaGraphLaunch");
    if (cudaError_t error = room_for(*exec, {file, line})) return error;
    auto run = [exec, stream] {
        StreamOfGraph during(stream, true);
        StepsOfGraph all;
        for (auto& step : exec->steps) {
            all.begin(step.node.get(), step.after);
            if (step.is_enabled) step.run();
        }
    };
    if (emu_captures(stream)) capture(stream, cudaGraphNodeTypeGraph, run);
    else run();
    return returned(cudaSuccess);
}
EMU_API emu_update(cudaGraphExec_t exec, cudaGraph_t graph) {
    Lock lock;
    auto nodes = ordered(*graph);
    bool same = nodes.size() == exec->steps.size();
    for (size_t i = 0; same && i < nodes.size(); ++i) same = nodes[i]->type == exec->steps[i].node->type;
    if (!same) return failed(cudaErrorInvalidValue);
    auto now = steps(nodes);  // a program names the nodes of the graph that it was made of
    for (size_t i = 0; i < now.size(); ++i) exec->steps[i].run = now[i].run;
    return returned(cudaSuccess);
}
EMU_API emu_add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    const NodeWork& work) {
    Lock lock;
    *node = added(graph, work.type, [=, run = work.run, w = work.work] { run(w); }, after, count);
    (*node)->parameters.assign((const char*)work.parameters, (const char*)work.parameters + work.bytes);
    return returned(cudaSuccess);
}
EMU_API emu_set_node(cudaGraphExec_t exec, cudaGraphNode_t node, const NodeWork& work) {
    Lock lock;
    auto* step = exec ? step_of(exec, node) : nullptr;
    if (!node || node->type != work.type || (exec && !step)) return failed(cudaErrorInvalidValue);
    auto run = [=, run = work.run, w = work.work] { run(w); };
    if (step) return step->run = run, returned(cudaSuccess);
    node->run = run;
    node->parameters.assign((const char*)work.parameters, (const char*)work.parameters + work.bytes);
    return returned(cudaSuccess);
}
EMU_API emu_node_parameters(cudaGraphNode_t node, int type, void* parameters, size_t bytes) {
    Lock lock;
    if (!node || node->type != type) return failed(cudaErrorInvalidValue);
    if (node->parameters.size() != bytes) return failed(cudaErrorNotSupported);  // captured, or given in another form
    memcpy(parameters, node->parameters.data(), bytes);
    return returned(cudaSuccess);
}
EMU_API cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    const cudaKernelNodeParams* kernel, const char* file, int line) {
    Lock lock;
    auto run = launch_of(*kernel, {file, line});
    if (!run) return no_kernel({file, line});
    *node = added(graph, cudaGraphNodeTypeKernel, run, after, count);
    return keep(**node, *kernel), returned(cudaSuccess);
}
EMU_API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* kernel) {
    return emu_node_parameters(node, cudaGraphNodeTypeKernel, kernel, sizeof *kernel); }
EMU_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel, const char* file,
    int line) {
    Lock lock;
    if (!node || node->type != cudaGraphNodeTypeKernel) return failed(cudaErrorInvalidValue);
    auto run = launch_of(*kernel, {file, line});
    if (!run) return no_kernel({file, line});
    node->run = run;
    const cudaKernelNodeParams now = *kernel;  // its arguments may be the node's own
    std::vector<std::vector<char>> held = std::move(node->arguments);
    return keep(*node, now), returned(cudaSuccess);
}
EMU_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* kernel,
    const char* file, int line) {
    Lock lock;
    auto* step = step_of(exec, node);
    if (!step || node->type != cudaGraphNodeTypeKernel) return failed(cudaErrorInvalidValue);
    auto run = launch_of(*kernel, {file, line});
    if (!run) return no_kernel({file, line});
    return step->run = run, returned(cudaSuccess);
}
