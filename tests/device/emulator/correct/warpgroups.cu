// Tiles by the copy engine, barriers that count arrivals and bytes, and products of warpgroups.
// arch: sm_90a
#include "bulk.cuh"
#include "sync.cuh"
#include "wgmma.cuh"

// One tile of ROWS rows of 128 bytes from a column and a row on, as 16-byte pieces in the order in which they lie in
// the matrix.
template <int ROWS, typename T>
__global__ void tile(const __grid_constant__ TensorMap map, T* y, int column, int row) {
    uint4* out = reinterpret_cast<uint4*>(y);
    __shared__ __align__(1024) uint4 pieces[ROWS * 8];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, sizeof pieces);
        copy_tile(pieces, map, column, row, &arrived);
    }
    barrier_wait(&arrived, 0);
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) out[i] = pieces[i / 8 * 8 + (i ^ i / 8) % 8];
}

// A box of pixels of images (images, rows, columns, channels in 16 bits), 64 channels of each: y (PIXELS, 64).
template <int PIXELS>
__global__ void pixels(const __grid_constant__ TensorMap map, unsigned short* y, int channel, int column, int row,
    int image) {
    uint4* out = reinterpret_cast<uint4*>(y);
    __shared__ __align__(1024) uint4 pieces[PIXELS * 8];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, sizeof pieces);
        copy_pixels(pieces, map, channel, column, row, image, &arrived);
    }
    barrier_wait(&arrived, 0);
    for (int i = threadIdx.x; i < PIXELS * 8; i += blockDim.x) out[i] = pieces[i / 8 * 8 + (i ^ i / 8) % 8];
}

// d (64, 128) = a b, where the 32 terms go down the rows of both: a (32, 64) and b (32, 128), in half (KIND 0) or bf16
// (1).
template <int KIND>
__global__ void __launch_bounds__(128) multiply_down(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap b, float* d) {
    __shared__ __align__(1024) char tile[3 * 4096];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barriers_ready();
        barrier_expect(&arrived, sizeof tile);
        copy_tile(tile, a, 0, 0, &arrived);
        for (int box = 0; box < 2; ++box) copy_tile(tile + 4096 + box * 4096, b, 64 * box, 0, &arrived);
    }
    __syncthreads();
    float sum[64];
    barrier_wait(&arrived, 0);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        if constexpr (KIND == 0)
            wgmma_half_down(sum, terms_down(tile + 2048 * step, 0), terms_down(tile + 4096 + 2048 * step, 4096),
            step > 0);
        else wgmma_bf16_down(sum, terms_down(tile + 2048 * step, 0), terms_down(tile + 4096 + 2048 * step, 4096),
            step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 64; ++i) d[(row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + column + i % 2] = sum[i];
}

// A ring of two stages that one thread fills and a warp empties, each in its own time: y[t] is the sum of number t of
// each of `steps` tiles of a row each.
extern "C" __global__ void hand_over(const __grid_constant__ TensorMap map, float* y, int steps) {
    __shared__ __align__(1024) float stages[2][256];
    __shared__ Barrier arrived[2], read[2];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; ++stage) barrier_init(&arrived[stage], 1), barrier_init(&read[stage], 32);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int step = 0; step < steps; ++step) {
            const int stage = step % 2;
            barrier_wait(&read[stage], (step / 2 + 1) % 2);
            barrier_expect(&arrived[stage], 128);
            copy_tile(stages[stage], map, 0, step, &arrived[stage]);
        }
    } else if (threadIdx.x < 32) {
        float sum = 0.0f;
        for (int step = 0; step < steps; ++step) {
            const int stage = step % 2;
            barrier_wait(&arrived[stage], step / 2 % 2);
            sum += stages[stage][threadIdx.x];
            barrier_arrive(&read[stage]);
        }
        y[threadIdx.x] = sum;
    }
}

// Sixteen rows for both blocks of a cluster, eight of them asked for by each: y (2, 16, 32).
extern "C" __global__ void for_both(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float both[2][8][32];
    __shared__ Barrier arrived, left;
    const unsigned rank = cluster_rank(), size = cluster_size();
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barrier_init(&left, size);
        barriers_ready();
    }
    cluster_sync();
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, sizeof both);
        copy_tile_to((1u << size) - 1, both[rank], map, 0, 8 * rank, &arrived);
    }
    barrier_wait(&arrived, 0);
    for (int i = 0; i < 16; ++i)
        y[(rank * 16 + i) * 32 + threadIdx.x] = both[i / 8][i % 8][(threadIdx.x / 4 ^ i % 8) * 4 + threadIdx.x % 4];
    __syncwarp();
    // nobody leaves before everybody has got what is his
    if (threadIdx.x < size) barrier_arrive_at(&left, threadIdx.x);
    barrier_wait(&left, 0);
}

// A piece of 64 floats for both blocks of a cluster, half of which each asks for, and one of 32 floats for the block
// alone: y (2, 96).
extern "C" __global__ void pieces(const float* x, float* y) {
    __shared__ __align__(16) float both[64], own[32];
    __shared__ Barrier arrived, left;
    const unsigned rank = cluster_rank(), size = cluster_size();
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barrier_init(&left, size);
        barriers_ready();
    }
    barriers_ready_in_cluster();
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, sizeof both + sizeof own);
        copy_piece_to((1u << size) - 1, both + 32 * rank, x + 32 * rank, 128, &arrived);
        copy_piece(own, x + 64 + 32 * rank, 128, &arrived);
    }
    barrier_wait(&arrived, 0);
    for (int i = threadIdx.x; i < 96; i += 32) y[rank * 96 + i] = i < 64 ? both[i] : own[i - 64];
    __syncwarp();
    if (threadIdx.x < size) barrier_read_at(&left, threadIdx.x);  // nobody leaves before everybody has got what is his
    barrier_wait(&left, 0);
}

// d (64, 256 or 128) += a b, 128 bytes of terms: KIND 0 half, a (64, 64), b (64, 128); 1 bf16, a (64, 64), b (64, 256);
// 2 tf32, a (64, 32), b (256, 32) turned.
template <int KIND>
__global__ void __launch_bounds__(128) multiply(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap b, float* d) {
    constexpr int COLUMNS = KIND == 0 ? 128 : 256, OF_B = COLUMNS * 128;
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived;
    char* tile = reinterpret_cast<char*>((reinterpret_cast<unsigned long long>(shared) + 1023) / 1024 * 1024);
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barriers_ready();
        barrier_expect(&arrived, 8192 + OF_B);
        copy_tile(tile, a, 0, 0, &arrived);
        for (int box = 0; box < (KIND == 2 ? 1 : COLUMNS / 64); ++box)
            copy_tile(tile + 8192 + box * 8192, b, 64 * box, 0, &arrived);
    }
    __syncthreads();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    float sum[COLUMNS / 2];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) sum[i] = d[(row + i / 2 % 2 * 8) * COLUMNS + i / 4 * 8 + column + i % 2];
    barrier_wait(&arrived, 0);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        if constexpr (KIND == 0)
            wgmma_half(sum, terms_along(tile + 32 * step), terms_down(tile + 8192 + 2048 * step, 8192), true);
        else if constexpr (KIND == 1)
            wgmma_bf16(sum, terms_along(tile + 32 * step), terms_down(tile + 8192 + 2048 * step, 8192), true);
        else wgmma_tf32(sum, terms_along(tile + 32 * step), terms_along(tile + 8192 + 32 * step), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) d[(row + i / 2 % 2 * 8) * COLUMNS + i / 4 * 8 + column + i % 2] = sum[i];
}

// sum += left right, or = without `adds`, in half or bf16; way: as in multiply_narrow.
__device__ __forceinline__ void multiply_by(
    float (&sum)[32], unsigned long long left, unsigned long long right, int way, int bf16, bool adds
) {
    if (way == 0 && bf16) wgmma_bf16(sum, left, right, adds);
    else if (way == 0) wgmma_half(sum, left, right, adds);
    else if (way == 1 && bf16) wgmma_bf16_down(sum, left, right, adds);
    else if (way == 1) wgmma_half_down(sum, left, right, adds);
    else if (bf16) wgmma_bf16_along(sum, left, right, adds);
    else wgmma_half_along(sum, left, right, adds);
}

// d (64, 64) = a b, 64 terms, in half or bf16. a, b: tiles of 64 x 64 whose terms go along a's rows and down b's (way
// 0), down both (1) or along both (2).
extern "C" __global__ void __launch_bounds__(128) multiply_narrow(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap b, float* d, int way, int bf16) {
    __shared__ __align__(1024) char tile[2 * 8192];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        barriers_ready();
        barrier_expect(&arrived, sizeof tile);
        copy_tile(tile, a, 0, 0, &arrived);
        copy_tile(tile + 8192, b, 0, 0, &arrived);
    }
    __syncthreads();
    float sum[32];
    barrier_wait(&arrived, 0);
    for (int step = 0; step < 4; ++step) {
        const unsigned long long left = way == 1 ? terms_down(tile + 2048 * step, 0) : terms_along(tile + 32 * step);
        const unsigned long long right = way == 2 ? terms_along(tile + 8192 + 32 * step)
            : terms_down(tile + 8192 + 2048 * step, 0);
        wgmma_begin();
        multiply_by(sum, left, right, way, bf16, step > 0);
        wgmma_commit();
        wgmma_wait<0>();
    }
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) d[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = sum[i];
}

// A tile that the threads write themselves, with the fence that it takes, and its square: y (64, 256) = x x four times
// side by side, of x (64, 64) in bf16.
extern "C" __global__ void own_tile(const unsigned short* x, float* y) {
    __shared__ __align__(1024) unsigned short tile[64 * 64];
    for (int i = threadIdx.x; i < 64 * 64; i += 128)
        tile[i / 64 * 64 + ((i % 64 / 8) ^ (i / 64 % 8)) * 8 + i % 8] = x[i];
    tiles_written();
    __syncthreads();
    float sum[128];
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wgmma_bf16(sum, terms_along(tile + 16 * step), terms_down(tile + 64 * 16 * step, 0), step > 0);
    wgmma_commit();
    wgmma_wait<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 128; ++i) y[(row + i / 2 % 2 * 8) * 256 + i / 4 * 8 + column + i % 2] = sum[i];
}

// d (64, 64) = a b, 32 terms, in half or bf16. a, b: pieces of eight rows of 16 bytes, without a swizzle; the next piece
// of a has the next eight terms, that of b the next eight columns. way: as in multiply_narrow.
extern "C" __global__ void __launch_bounds__(128) multiply_unswizzled(const unsigned short* a, const unsigned short* b,
    float* d, int way, int bf16) {
    __shared__ __align__(128) unsigned short tile[2][64 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += 128) tile[0][i] = a[i], tile[1][i] = b[i];
    tiles_written();
    __syncthreads();
    float sum[32];
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned long long left = descriptor(tile[0] + step * 128, 128, 512, 0);
        const unsigned long long right = descriptor(tile[1] + step * 1024, 1024, 128, 0);
        multiply_by(sum, left, right, way, bf16, step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) d[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = sum[i];
}
