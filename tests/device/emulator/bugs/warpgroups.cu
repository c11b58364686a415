// Tiles that are used before they have arrived, barriers whose phases never end, and warpgroups that multiply what they
// may not yet.
// arch: sm_90a
#include "bulk.cuh"
#include "wgmma.cuh"

constexpr int SIDE = 64, BYTES = 8 * 128;  // a tile of eight rows of 32 floats, or of 64 x 64 numbers in bf16

__device__ void begin(Barrier* barrier, int count) {
    if (threadIdx.x == 0) {
        barrier_init(barrier, count);
        barriers_ready();
    }
    __syncthreads();
}

// The barrier of the block waits for no tile.
extern "C" __global__ void no_wait_for_the_tile(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_tile(tile, map, 0, 0, &arrived);  // <-
    }
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];  // <-
    __syncthreads();
    barrier_wait(&arrived, 0);
}

// A tile begins at a multiple of 16 bytes of its row, four floats.
extern "C" __global__ void tile_from_an_odd_column(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_tile(tile, map, 3, 0, &arrived);  // <-
    }
    barrier_wait(&arrived, 0);
    y[threadIdx.x] = tile[threadIdx.x];
}

// A piece begins at a multiple of 16 bytes.
extern "C" __global__ void piece_from_an_odd_float(const float* x, float* y) {
    __shared__ __align__(16) float piece[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_piece(piece, x + 1, BYTES, &arrived);  // <-
    }
    barrier_wait(&arrived, 0);
    y[threadIdx.x] = piece[threadIdx.x];
}

// The barrier of the block waits for no piece.
extern "C" __global__ void no_wait_for_the_piece(const float* x, float* y) {
    __shared__ __align__(16) float piece[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_piece(piece, x, BYTES, &arrived);  // <-
    }
    __syncthreads();
    y[threadIdx.x] = piece[threadIdx.x];  // <-
    __syncthreads();
    barrier_wait(&arrived, 0);
}

// One thread waits, and the others take what is there.
extern "C" __global__ void one_waits_for_all(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_tile(tile, map, 0, 0, &arrived);  // <-
        barrier_wait(&arrived, 0);
    }
    y[threadIdx.x] = tile[threadIdx.x];  // <-
}

// The second time around the phase has the other parity.
extern "C" __global__ void always_the_same_phase(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    float sum = 0.0f;
    for (int step = 0; step < 2; ++step) {
        if (threadIdx.x == 0) {
            barrier_expect(&arrived, BYTES);
            copy_tile(tile, map, 0, 8 * step, &arrived);  // <-
        }
        barrier_wait(&arrived, 0);
        sum += tile[threadIdx.x];  // <-
        __syncthreads();
    }
    y[threadIdx.x] = sum;
    barrier_wait(&arrived, 1);
}

// Two warps take pieces in turn from a ring of three stages: at its third piece a warp waits for the second phase of a
// stage whose first one the other warp waited for.
extern "C" __global__ void others_saw_the_phase_before(const float* x, float* y) {
    constexpr int STAGES = 3, STEPS = 6;
    __shared__ __align__(16) float pieces[STAGES][256];
    __shared__ Barrier filled[STAGES], read[STAGES];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&filled[stage], 1), barrier_init(&read[stage], 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 64) {
        for (int step = 0; step < STEPS; ++step) {
            const int stage = step % STAGES;
            barrier_wait(&read[stage], step / STAGES % 2 ^ 1);
            barrier_expect(&filled[stage], BYTES);
            copy_piece(pieces[stage], x + 256 * step, BYTES, &filled[stage]);
        }
    } else if (threadIdx.x < 64) {
        float sum = 0.0f;
        for (int step = threadIdx.x / 32; step < STEPS; step += 2) {
            const int stage = step % STAGES;
            barrier_wait(&filled[stage], step / STAGES % 2);  // <-
            sum += pieces[stage][threadIdx.x];
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(&read[stage]);
        }
        y[threadIdx.x] = sum;
    }
}

// More bytes are announced than come.
extern "C" __global__ void too_many_bytes(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES + 128);
        copy_tile(tile, map, 0, 0, &arrived);
    }
    barrier_wait(&arrived, 0);  // <-
    y[threadIdx.x] = tile[threadIdx.x];
}

// A barrier that counts 32 arrivals, and at which one thread in two arrives.
extern "C" __global__ void too_few_arrive(float* y) {
    __shared__ Barrier half;
    begin(&half, 32);
    if (threadIdx.x % 2 == 0) barrier_arrive(&half);
    barrier_wait(&half, 0);  // <-
    y[threadIdx.x] = 0.0f;
}

extern "C" __global__ void arrives_too_often(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        barrier_arrive(&arrived);  // <-
        copy_tile(tile, map, 0, 0, &arrived);
    }
    barrier_wait(&arrived, 0);
    y[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void barrier_from_nowhere(float* y) {
    __shared__ Barrier never;
    barrier_arrive(&never);  // <-
    y[threadIdx.x] = 0.0f;
}

// The stage is filled again while others may still read it.
extern "C" __global__ void filled_too_early(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    float sum = 0.0f;
    for (int step = 0; step < 2; ++step) {
        if (threadIdx.x == 32) {
            barrier_expect(&arrived, BYTES);
            copy_tile(tile, map, 0, 8 * step, &arrived);  // <-
        }
        barrier_wait(&arrived, step);
        __syncthreads();
        sum += tile[threadIdx.x];  // <-
    }
    y[threadIdx.x] = sum;
}

// The tile comes to memory that may be another block's by then.
extern "C" __global__ void nobody_takes_the_tile(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) float tile[256];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&arrived, BYTES);
        copy_tile(tile, map, 0, 0, &arrived);  // <-
    }
    y[threadIdx.x] = 0.0f;
}

// A tile of 64 x 64 numbers, all zero, that the tensor cores may read.
__device__ void clear(unsigned short* tile) {
    for (int i = threadIdx.x; i < SIDE * SIDE; i += 128) tile[i] = 0;
    tiles_written();
    __syncthreads();
}
__device__ __forceinline__ void square(float (&sum)[128], const unsigned short* tile) {
    wgmma_bf16(sum, terms_along(tile), terms_down(tile, 0), true);  // <-
}

// Sums are set, and nothing orders the registers before the tensor cores use them.
extern "C" __global__ void no_fence_after_clearing(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    clear(tile);
    float sum[128];
    wgmma_begin();
    square(sum, tile);  // <-
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 128; ++i) sum[i] = 0.0f;
    square(sum, tile);  // <-
    wgmma_commit();
    wgmma_wait<0>();
    y[threadIdx.x] = sum[0];
}

extern "C" __global__ void sums_before_the_wait(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    clear(tile);
    float sum[128];
    wgmma_begin();
    square(sum, tile);  // <-
    wgmma_commit();
    y[threadIdx.x] = sum[5];  // <-
    wgmma_wait<0>();
}

extern "C" __global__ void nobody_waits_for_the_product(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    clear(tile);
    float sum[128];
    wgmma_begin();
    square(sum, tile);  // <-
    wgmma_commit();
    y[threadIdx.x] = 0.0f;
}

// A barrier orders what threads see. The tensor cores see shared memory another way.
extern "C" __global__ void no_fence_for_the_tile(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    for (int i = threadIdx.x; i < SIDE * SIDE; i += 128) tile[i] = 0;  // <-
    __syncthreads();
    float sum[128];
    wgmma_begin();
    square(sum, tile);  // <-
    wgmma_commit();
    wgmma_wait<0>();
    y[threadIdx.x] = sum[0];
}

// The stage is filled again while products that read it are under way.
extern "C" __global__ void filled_under_a_product(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    __shared__ Barrier arrived;
    begin(&arrived, 1);
    float sum[128];
    for (int step = 0; step < 2; ++step) {
        if (threadIdx.x == 0) {
            barrier_expect(&arrived, SIDE * 128);
            copy_tile(tile, map, 0, 0, &arrived);  // <-
        }
        barrier_wait(&arrived, step);
        wgmma_begin();
        square(sum, tile);  // <-
        wgmma_commit();
        __syncthreads();
    }
    wgmma_wait<0>();
    y[threadIdx.x] = sum[0];
}

// One warp of the four multiplies by another number of terms.
extern "C" __global__ void one_warp_differs(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    clear(tile);
    float sum[128];
    wgmma_begin();
    wgmma_bf16(sum, terms_along(tile), terms_down(tile + (threadIdx.x < 96 ? 0 : 1024), 0), true);  // <-
    wgmma_commit();
    wgmma_wait<0>();
    y[threadIdx.x] = sum[0];
}

// A product is made by four warps, and one of them is not there.
extern "C" __global__ void one_warp_stays_away(float* y) {
    __shared__ __align__(1024) unsigned short tile[SIDE * SIDE];
    clear(tile);
    float sum[128];
    if (threadIdx.x < 96) {
        wgmma_begin();
        square(sum, tile);
        wgmma_commit();
        wgmma_wait<0>();  // <-
    }
    __syncthreads();  // <-
    y[threadIdx.x] = sum[0];
}
