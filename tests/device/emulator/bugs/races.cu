// Threads of one block that do not wait for each other.
constexpr int TILE = 16;

// The tile is read before all of it is written.
extern "C" __global__ void no_barrier_after_load(const float* a, float* c) {
    __shared__ float tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = a[y * TILE + x];  // <-
    c[y * TILE + x] = tile[x][y];  // <-
}

// The next tile is loaded while others still read this one.
extern "C" __global__ void no_barrier_before_load(const float* a, float* c, int tiles) {
    __shared__ float tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    float sum = 0.0f;
    for (int i = 0; i < tiles; ++i) {
        tile[y][x] = a[(i * TILE + y) * TILE + x];  // <-
        __syncthreads();
        sum += tile[x][y];  // <-
    }
    c[y * TILE + x] = sum;
}

__device__ float block_sum(float v, float* room) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;  // <-
    __syncthreads();
    v = 0.0f;
    for (int i = 0; i < blockDim.x / 32; ++i) v += room[i];  // <-
    return v;  // the caller uses the room again, and others still read it
}

extern "C" __global__ void room_used_again(const float* x, float* y) {
    __shared__ float room[32];
    int t = threadIdx.x;
    float sum = block_sum(x[t], room), squares = block_sum(x[t] * x[t], room);
    y[t] = squares - sum;
}

// A tree without a barrier between its levels.
extern "C" __global__ void tree_without_barriers(const float* x, float* y) {
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    for (int d = 64; d > 0; d /= 2)
        if (t < d) part[t] += part[t + d];  // <-
    __syncthreads();
    if (t == 0) y[0] = part[0];
}

// The last levels of a tree run in one warp, which orders nothing by itself.
extern "C" __global__ void last_warp_without_sync(const float* x, float* y) {
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    for (int d = 64; d > 0; d /= 2) {
        if (t < d) part[t] += part[t + d];  // <-
        if (d > 32) __syncthreads();
    }
    if (t == 0) y[0] = part[0];
}

// volatile does not order lanes either.
extern "C" __global__ void volatile_warp(const float* x, float* y) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    if (t < 32) {
        volatile float* v = part;
        v[t] += v[t + 32];  // <-
        v[t] += v[t + 16];  // <-
        v[t] += v[t + 8];   // <-
        v[t] += v[t + 4];   // <-
        v[t] += v[t + 2];   // <-
        v[t] += v[t + 1];   // <-
    }
    if (t == 0) y[0] = part[0];  // <-
}

// The second warp sets the flag before the number: the first one, which polls it, may read either.
extern "C" __global__ void flag_before_the_number(const float* x, float* y) {
    __shared__ volatile int full;
    __shared__ float slot;
    if (threadIdx.x == 0) full = 0, slot = 0.0f;
    __syncthreads();
    if (threadIdx.x == 32) {
        full = 1;
        slot = x[0];  // <-
    }
    if (threadIdx.x == 0) {
        while (full == 0) {
        }
        y[0] = slot;  // <-
    }
}

// A warp hands numbers on through shared memory: the second exchange overtakes the first.
extern "C" __global__ void missing_syncwarp(const float* x, float* y) {
    __shared__ float kept[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    kept[warp][lane] = x[threadIdx.x];
    __syncwarp();
    float v = kept[warp][31 - lane];  // <-
    kept[warp][lane] = 2.0f * v;      // <-
    __syncwarp();
    y[threadIdx.x] = kept[warp][lane];
}

// Half a warp waits for itself, and reads what the other half writes.
extern "C" __global__ void half_a_warp(const float* x, float* y) {
    __shared__ float kept[32];
    int lane = threadIdx.x;
    kept[lane] = x[lane];  // <-
    __syncwarp(lane < 16 ? 0x0000ffffu : 0xffff0000u);
    y[lane] = kept[31 - lane];  // <-
}

// The buffer that is filled is the one that is read.
extern "C" __global__ void one_buffer_for_two(const float* x, float* y, int steps) {
    __shared__ float buffer[2][64];
    int t = threadIdx.x;
    float sum = 0.0f;
    buffer[0][t] = x[t];
    __syncthreads();
    for (int i = 0; i < steps; ++i) {
        if (i + 1 < steps) buffer[i & 1][t] = x[(i + 1) * 64 + t];  // <-
        sum += buffer[i & 1][63 - t];                              // <-
        __syncthreads();
    }
    y[t] = sum;
}

// Everybody counts in the same place.
extern "C" __global__ void histogram_without_atomics(const int* x, int* bins) {
    __shared__ int mine[8];
    int t = threadIdx.x;
    if (t < 8) mine[t] = 0;
    __syncthreads();
    mine[x[t]] += 1;  // <-
    __syncthreads();
    if (t < 8) bins[t] = mine[t];
}

// Blocks of a warp and a half: what the second warp has read is forgotten when the first one reads once more.
extern "C" __global__ void overwritten_behind_a_part_of_a_warp(const float* x, float* y) {
    __shared__ float first;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float sum = x[i];
    if (t == 0) first = x[i];
    __syncthreads();
    if (t == 16) sum += first;
    if (t == 40) sum += first;  // <-
    if (t < 32 && blockIdx.x == 1) {
        __syncwarp();
        if (t == 20) sum += first;
        __syncwarp();
        if (t == 0) first = sum;  // <-
    }
    y[i] = sum;
}
