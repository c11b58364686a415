// Memory of graphs. It has its address from the time when its node is made, and is there from the node that allocates
// it to the one that frees it, or to a call that does.
#include "../headers/graph_memory.h"
#include "host.h"

namespace emu {

static size_t most_used = 0;  // bytes of graphs' memory at a time
static auto& of_graphs = *new std::set<uintptr_t>;
static size_t used_by_graphs() {
    size_t sum = 0;
    for (uintptr_t low : of_graphs)
        if (Allocation* a = find((void*)low); a && !a->freed) sum += a->pages;
    return sum;
}

// Memory that is reserved for a node, and not allocated yet.
static cudaError_t reserve(void** pointer, size_t bytes, Named name, Spot place) {
    cudaError_t error = emu_malloc(pointer, bytes, cudaMemoryTypeDevice, name, place.file, place.line);
    if (error != cudaSuccess || !*pointer) return error;
    Allocation& a = *find(*pointer);
    a.freed = true;
    mprotect((void*)a.mapped, a.pages, PROT_NONE);
    of_graphs.insert(a.low);
    return cudaSuccess;
}

static std::function<void()> allocation(void* pointer) {
    return [pointer] {
        Lock lock;
        if (Allocation* a = find(pointer); a && a->freed) revive(*a);
        most_used = std::max(most_used, used_by_graphs());
    };
}
static std::function<void()> freeing(void* pointer, const char* call, Spot place) {
    return [=] { release(pointer, false, call, place, false); };
}

// A graph is not launched while the memory of its last launch is allocated, unless it frees that by itself.
static cudaError_t room_for(const CUgraphExec_st& exec, Spot place) {
    for (auto& step : exec.steps) {
        if (step.node->type != cudaGraphNodeTypeMemAlloc) continue;
        Allocation* a = find(step.node->memory);
        if (!a || a->freed) continue;
        if (exec.frees_first) {
            release(step.node->memory, false, "cudaGraphLaunch", place, false);
            continue;
        }
        report("problem", "launch", "cudaGraphLaunch at {0} is refused: what the graph's last launch allocated is not "
            "freed: " + described(*a) + "; call cudaFreeAsync before, or instantiate the graph with "
            "cudaGraphInstantiateFlagAutoFreeOnLaunch", a->name, place);
        return failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

}  // namespace emu

EMU_API emu_malloc_async(void** pointer, size_t bytes, cudaStream_t stream, Named name, const char* file, int line) {
    Lock lock;
    if (!emu_captures(stream)) return emu_malloc(pointer, bytes, cudaMemoryTypeDevice, name, file, line);
    cudaError_t error = reserve(pointer, bytes, name, {file, line});
    if (error != cudaSuccess || !*pointer) return error;
    capture(stream, cudaGraphNodeTypeMemAlloc, allocation(*pointer))->memory = *pointer;
    return cudaSuccess;
}
EMU_API cudaFreeAsync(void* pointer, cudaStream_t stream, const char* file, int line) {
    Lock lock;
    if (!emu_captures(stream)) return release(pointer, false, "cudaFreeAsync", {file, line}, false);
    capture(stream, cudaGraphNodeTypeMemFree, freeing(pointer, "cudaFreeAsync", {file, line}))->memory = pointer;
    return returned(cudaSuccess);
}
EMU_API cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    cudaMemAllocNodeParams* p, const char* file, int line) {
    Lock lock;
    cudaError_t error = reserve(&p->dptr, p->bytesize, {"", 1}, {file, line});
    if (error != cudaSuccess) return error;
    *node = added(graph, cudaGraphNodeTypeMemAlloc, allocation(p->dptr), after, count);
    (*node)->memory = p->dptr;
    (*node)->parameters.assign((const char*)p, (const char*)(p + 1));
    return returned(cudaSuccess);
}
EMU_API cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
    void* pointer, const char* file, int line) {
    Lock lock;
    *node = added(graph, cudaGraphNodeTypeMemFree, freeing(pointer, "cudaGraphAddMemFreeNode", {file, line}), after,
        count);
    (*node)->memory = pointer;
    (*node)->parameters.assign((const char*)&pointer, (const char*)(&pointer + 1));
    return returned(cudaSuccess);
}
// Bytes of graphs' memory in use, or the most that ever were: as much counts as reserved, though a GPU may share memory
// between graphs that do not run at the same time.
EMU_API cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType what, void* value) {
    Lock lock;
    *static_cast<unsigned long long*>(value) = what == cudaGraphMemAttrUsedMemCurrent ? used_by_graphs() : most_used;
    return returned(cudaSuccess);
}
EMU_API cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) {
    Lock lock;
    return most_used = used_by_graphs(), returned(cudaSuccess);
}
EMU_API cudaDeviceGraphMemTrim(int) {
    Lock lock;
    return most_used = used_by_graphs(), returned(cudaSuccess);
}
