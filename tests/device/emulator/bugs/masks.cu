// Warp collectives whose mask says something else than the lanes do.

// The mask names all lanes, and half of them are not there.
extern "C" __global__ void full_mask_in_a_branch(const float* x, float* y) {
    __shared__ float sum;
    int lane = threadIdx.x;
    float v = x[lane];
    if (lane < 16) {
        for (int d = 8; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);  // <-
        if (lane == 0) sum = v;
    }
    __syncthreads();  // <-
    y[lane] = sum;
}

// Everybody calls with the mask of the lower half.
extern "C" __global__ void not_in_the_mask(const float* x, float* y) {
    y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 1);  // <-
}

// The halves name different lanes, and neither knows of the other.
extern "C" __global__ void masks_that_differ(const int* x, unsigned* y) {
    int lane = threadIdx.x;
    unsigned mask = lane < 16 ? 0xffffffffu : 0xffff0000u;
    if (lane < 16) y[lane] = __ballot_sync(mask, x[lane]);  // <-
    else y[lane] = __any_sync(0xffffffffu, x[lane]);        // <-
}

// The last warp has 16 lanes, and lane 0 reads the 17th.
extern "C" __global__ void lane_that_is_not_there(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);  // <-
    y[threadIdx.x] = v;
}

// Lanes without work have left when the others read from them.
extern "C" __global__ void lane_that_has_left(const float* x, float* y, int n) {
    int lane = threadIdx.x;
    if (lane >= n) return;
    y[lane] = __shfl_sync(0xffffffffu, x[lane], 31 - lane);  // <-
}
