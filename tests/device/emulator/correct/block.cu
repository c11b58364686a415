// What threads of one block do together, rightly.
constexpr int TILE = 16;

// c (m, n) = a (m, k) b (k, n), in tiles of shared memory; ragged edges are filled with zeros.
extern "C" __global__ void __launch_bounds__(TILE * TILE) matmul(const float* a, const float* b, float* c,
    int m, int n, int k) {
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int first = 0; first < k; first += TILE) {
        left[y][x] = row < m && first + x < k ? __ldg(&a[row * k + first + x]) : 0.0f;
        right[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

// Two buffers: one is filled while the other is read.
extern "C" __global__ void double_buffer(const float* x, float* y, int steps) {
    __shared__ float buffer[2][128];
    const int t = threadIdx.x;
    float sum = 0.0f;
    buffer[0][t] = x[t];
    __syncthreads();
    for (int i = 0; i < steps; ++i) {
        if (i + 1 < steps) buffer[(i + 1) & 1][t] = x[(i + 1) * 128 + t];
        sum += buffer[i & 1][127 - t];
        __syncthreads();
    }
    y[t] = sum;
}

// Lanes of a warp hand numbers on through shared memory: no barrier of the block.
extern "C" __global__ void warp_exchange(const float* x, float* y) {
    __shared__ float kept[4][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    kept[warp][lane] = x[i];
    __syncwarp();
    const float v = kept[warp][31 - lane];
    __syncwarp();
    kept[warp][lane] = 2.0f * v;
    __syncwarp();
    y[i] = kept[warp][lane ^ 1];
}

// Halves of a warp, each by itself.
extern "C" __global__ void half_warps(const float* x, float* y) {
    __shared__ float kept[32];
    const int lane = threadIdx.x;
    const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    kept[lane] = x[lane];
    __syncwarp(mask);
    y[lane] = kept[lane ^ 15];
    float sum = x[lane];
    if (lane < 16)
        for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(mask, sum, d);
    y[32 + lane] = sum;
}

// One piece of dynamic shared memory, three arrays of different types.
extern "C" __global__ void carved(const float* x, float* y, int n) {
    extern __shared__ __align__(16) unsigned char room[];
    double* sums = reinterpret_cast<double*>(room);
    float* values = reinterpret_cast<float*>(sums + n);
    int* order = reinterpret_cast<int*>(values + n);
    const int t = threadIdx.x;
    sums[t] = 0.5 * x[t], values[t] = x[t], order[t] = n - 1 - t;
    __syncthreads();
    y[t] = float(sums[order[t]]) + values[order[t]];
}

// Several names in one declaration, scalars, a struct, more alignment than usual.
struct Pair {
    float value;
    int index;
};
extern "C" __global__ void declarations(const float* x, float* y) {
    __shared__ float part[64], largest;
    __shared__ alignas(32) Pair best[2];
    __shared__ bool odd;
    const int t = threadIdx.x;
    part[t] = x[t];
    if (t == 0) odd = false;
    __syncthreads();
    if (t == 0) {
        largest = part[0];
        best[0] = {part[0], 0};
        for (int i = 1; i < 64; ++i)
            if (part[i] > largest) largest = part[i], best[0] = {part[i], i};
        best[1] = best[0];
        odd = best[1].index % 2;
    }
    __syncthreads();
    y[t] = largest + best[1].index + odd;
}

// The counting barriers.
extern "C" __global__ void votes(const int* x, int* y) {
    const int t = threadIdx.x;
    y[4 * t] = __syncthreads_count(x[t] > 3);
    y[4 * t + 1] = __syncthreads_and(x[t] >= 0);
    y[4 * t + 2] = __syncthreads_or(x[t] > 6);
    y[4 * t + 3] = __syncthreads_count(x[t] > 5);
}

// A lock in shared memory, taken by one thread of each warp.
extern "C" __global__ void locked(int* y) {
    __shared__ int lock, count;
    if (threadIdx.x == 0) lock = count = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        __threadfence_block();
        count = count + 1;
        __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) y[0] = count;
}

// The first warp waits for a flag that the second one sets.
extern "C" __global__ void handshake(const float* x, float* y, volatile int* flag) {
    __shared__ float kept;
    if (threadIdx.x == 32) {
        kept = x[0];
        __threadfence_block();
        *flag = 1;
    }
    if (threadIdx.x == 0) {
        while (*flag == 0) {
        }
        __threadfence_block();
        y[0] = kept;
    }
}

// After a barrier that frees both, the first warp polls shared flags that the second one sets, and the other way round.
extern "C" __global__ void specialised(const float* x, float* y, int rounds) {
    __shared__ volatile int full;
    __shared__ int empty;
    __shared__ float slot;
    const int t = threadIdx.x;
    if (t == 0) full = 0, empty = 1;
    __syncthreads();
    if (t == 32)
        for (int i = 0; i < rounds; ++i) {
            while (atomicCAS(&empty, 1, 0) != 1) {
            }
            __threadfence_block();
            slot = x[i];
            __threadfence_block();
            full = i + 1;
        }
    if (t == 0)
        for (int i = 0; i < rounds; ++i) {
            while (full != i + 1) {
            }
            __threadfence_block();
            y[blockIdx.x * rounds + i] = slot;
            __threadfence_block();
            atomicExch(&empty, 1);
        }
    __syncthreads();
}

// A thread waits for two flags in turns, volatile ones and then counters, which two other warps set after a barrier.
extern "C" __global__ void two_flags(const float* x, float* y) {
    __shared__ volatile int left, right;
    __shared__ int lefts, rights;
    __shared__ float slot[2];
    const int t = threadIdx.x;
    if (t == 0) left = right = lefts = rights = 0;
    __syncthreads();
    for (int i = 0; i < 2; ++i)
        if (t == 32 + 32 * i) {
            slot[i] = x[i];
            __threadfence_block();
            (i ? right : left) = 1;
            atomicAdd(i ? &rights : &lefts, 1);
        }
    if (t == 0) {
        while (left + right < 2) {
        }
        while (atomicAdd(&lefts, 0) + atomicAdd(&rights, 0) < 2) {
        }
        __threadfence_block();
        y[0] = slot[0] + slot[1];
    }
}

// A struct with bytes between its members, member by member and as a whole.
struct Sparse {
    float value;
    bool odd;
};
extern "C" __global__ void structs(const float* x, float* y) {
    __shared__ Sparse kept[64], copied[64];
    const int t = threadIdx.x;
    kept[t].value = x[t];
    kept[t].odd = t % 2;
    __syncthreads();
    copied[t] = kept[63 - t];
    y[t] = copied[t].value + copied[t].odd;
}

// Neighbouring bytes of different threads, and structs of three bytes: no two threads share one.
struct Colour {
    unsigned char red, green, blue;
};
extern "C" __global__ void bytes(const unsigned char* x, unsigned char* y, uchar3* z) {
    __shared__ unsigned char kept[64];
    __shared__ Colour colours[64];
    const int t = threadIdx.x;
    kept[t] = x[t];
    colours[t] = {x[t], 1, 2};
    colours[t].green += 1;
    __syncthreads();
    y[t] = kept[63 - t] + colours[63 - t].red + colours[t].green;
    z[t] = make_uchar3(kept[t], 0, 1);
}
