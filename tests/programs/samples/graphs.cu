// A graph built node by node, and what may be asked of it and changed: in the graph, in a clone, in an executable alone.
#include <cstdio>

#define CHECK(x)                                                                              \
    do {                                                                                      \
        cudaError_t error = (x);                                                              \
        if (error) printf("line %d: %s\n", __LINE__, cudaGetErrorString(error));              \
    } while (0)

__constant__ int factor;
__global__ void add(int* x, int v) { x[threadIdx.x] += v; }
__global__ void scale(int* x) { x[threadIdx.x] *= factor; }
void CUDART_CB say(void* text) { printf("%s ", (const char*)text); }
void CUDART_CB read(void* number) { printf("read %d ", *(int*)number); }

static int h[32];
void launch(cudaGraphExec_t exec, cudaStream_t stream) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("%d\n", h[5]);
}

int main() {
    int *x, three = 3, one = 1, ten = 10, two = 2;
    CHECK(cudaMalloc(&x, sizeof h));
    cudaGraph_t graph, clone, outer, child;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams zeros = {};
    zeros.dst = x, zeros.elementSize = 4, zeros.width = 32, zeros.height = 1;
    cudaGraphNode_t fill, kernel, symbol, product, record, wait, out, call, inner, other;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zeros));
    void *arguments[] = {&x, &three}, *just_x[] = {&x};
    cudaKernelNodeParams adds = {}, scales = {};
    adds.func = (void*)add, adds.gridDim = dim3(1), adds.blockDim = dim3(32), adds.kernelParams = arguments;
    scales.func = (void*)scale, scales.gridDim = dim3(1), scales.blockDim = dim3(32), scales.kernelParams = just_x;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &adds));
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&symbol, graph, &fill, 1, factor, &ten, sizeof ten, 0,
        cudaMemcpyHostToDevice));
    cudaGraphNode_t both[] = {kernel, symbol};
    CHECK(cudaGraphAddKernelNode(&product, graph, both, 2, &scales));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaGraphAddEventRecordNode(&record, graph, &product, 1, event));
    CHECK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    CHECK(cudaGraphAddMemcpyNode1D(&out, graph, &wait, 1, h, x, sizeof h, cudaMemcpyDeviceToHost));
    cudaHostNodeParams says = {say, (void*)"first"};
    CHECK(cudaGraphAddHostNode(&call, graph, &out, 1, &says));
    size_t nodes, edges, roots, before;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
    CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
    CHECK(cudaGraphNodeGetDependencies(product, nullptr, &before));
    printf("%zu %zu %zu %zu\n", nodes, edges, roots, before);

    cudaStream_t stream;
    cudaGraphExec_t exec, second, third;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(cudaGraphClone(&clone, graph));
    arguments[1] = &one;
    CHECK(cudaGraphKernelNodeSetParams(kernel, &adds));  // the executable and the clone stay as they are
    launch(exec, stream);
    says.userData = (void*)"second";
    CHECK(cudaGraphExecHostNodeSetParams(exec, call, &says));
    cudaKernelNodeParams now;
    CHECK(cudaGraphKernelNodeGetParams(kernel, &now));
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &now));
    launch(exec, stream);
    CHECK(cudaGraphNodeSetEnabled(exec, product, 0));
    launch(exec, stream);
    CHECK(cudaGraphInstantiate(&second, clone, 0));
    launch(second, stream);
    CHECK(cudaGraphNodeFindInClone(&other, fill, clone));
    zeros.value = 1000;  // of each number, not of each byte
    CHECK(cudaGraphExecMemsetNodeSetParams(second, other, &zeros));
    launch(second, stream);
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&inner, outer, nullptr, 0, graph));
    CHECK(cudaGraphChildGraphNodeGetGraph(inner, &child));
    CHECK(cudaGraphNodeFindInClone(&other, kernel, child));
    arguments[1] = &two;
    CHECK(cudaGraphKernelNodeSetParams(other, &adds));
    CHECK(cudaGraphInstantiate(&third, outer, 0));
    launch(third, stream);
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroyNode(call));
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    printf("%zu\n", nodes);

    cudaGraph_t captured;  // in one stream, and launched in another
    cudaGraphExec_t fourth;
    cudaStream_t elsewhere;
    int* pinned;
    CHECK(cudaMallocHost(&pinned, 4096));
    CHECK(cudaStreamCreateWithFlags(&elsewhere, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(x, 0, sizeof h, stream));
    add<<<1, 32, 0, stream>>>(x, 7);
    CHECK(cudaMemcpyAsync(h, x, sizeof h, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(pinned, x, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, read, pinned));
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&fourth, captured, 0));
    launch(fourth, elsewhere);
    cudaGraphNode_t copy;
    says = {read, pinned};
    CHECK(cudaGraphExecDestroy(fourth));
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, outer, nullptr, 0, pinned, x, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddHostNode(&call, outer, &copy, 1, &says));
    CHECK(cudaGraphInstantiate(&fourth, outer, 0));
    launch(fourth, elsewhere);
    CHECK(cudaGraphExecDestroy(fourth));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaGraphDestroy(captured));
    CHECK(cudaStreamDestroy(elsewhere));
    for (cudaGraphExec_t each : {exec, second, third}) CHECK(cudaGraphExecDestroy(each));
    for (cudaGraph_t each : {graph, clone}) CHECK(cudaGraphDestroy(each));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(x));
}
