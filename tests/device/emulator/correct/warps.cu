// Warp collectives. Each writes what one lane gets, so that a test can compare it.

extern "C" __global__ void shuffles(const float* x, float* y) {
    const int lane = threadIdx.x;
    const float v = x[lane];
    y[lane] = __shfl_sync(0xffffffffu, v, (lane + 5) % 32);
    y[32 + lane] = __shfl_up_sync(0xffffffffu, v, 3);
    y[64 + lane] = __shfl_down_sync(0xffffffffu, v, 7);
    y[96 + lane] = __shfl_xor_sync(0xffffffffu, v, 21);
    y[128 + lane] = __shfl_sync(0xffffffffu, v, 2, 8);
    y[160 + lane] = __shfl_up_sync(0xffffffffu, v, 1, 8);
    y[192 + lane] = __shfl_down_sync(0xffffffffu, v, 1, 4);
    const double d = __shfl_xor_sync(0xffffffffu, double(v), 1);
    y[224 + lane] = float(d);
}

extern "C" __global__ void ballots(const int* x, unsigned* y) {
    const int lane = threadIdx.x, v = x[lane];
    y[lane] = __ballot_sync(0xffffffffu, v > 3);
    y[32 + lane] = __any_sync(0xffffffffu, v > 100);
    y[64 + lane] = __all_sync(0xffffffffu, v < 100);
    y[96 + lane] = __match_any_sync(0xffffffffu, v);
    int all;
    y[128 + lane] = __match_all_sync(0xffffffffu, v / 100, &all);
    y[160 + lane] = unsigned(all);
    y[192 + lane] = unsigned(__reduce_add_sync(0xffffffffu, v));
    y[224 + lane] = unsigned(__reduce_min_sync(0xffffffffu, v - 4));
    y[256 + lane] = __reduce_max_sync(0xffffffffu, unsigned(v));
    y[288 + lane] = __reduce_xor_sync(0xffffffffu, unsigned(v) * 77u);
}

// A last warp of 8 lanes, and lanes that have left.
extern "C" __global__ void ragged(const int* x, int* y, int n) {
    const int t = threadIdx.x;
    if (t >= n) return;
    y[t] = __popc(__ballot_sync(0xffffffffu, x[t] % 2 == 0));
}

// One atomic addition for all lanes that add to the same bin.
extern "C" __global__ void aggregated(const int* x, int* bins, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned here = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    const unsigned same = __match_any_sync(here, x[i]);
    const int leader = __ffs(same) - 1;
    if (int(threadIdx.x % 32) == leader) atomicAdd(&bins[x[i]], __popc(same));
    __syncwarp(same);
}

// The same with whatever lanes happen to run together.
extern "C" __global__ void opportunistic(int* counter, int* place) {
    const unsigned together = __activemask();
    const int lane = threadIdx.x % 32, leader = __ffs(together) - 1;
    int first = 0;
    if (lane == leader) first = atomicAdd(counter, __popc(together));
    first = __shfl_sync(together, first, leader);
    place[blockIdx.x * blockDim.x + threadIdx.x] = first + __popc(together & ((1u << lane) - 1u));
}
