// Numbers that blocks of a cluster send each other: waits for the wrong phase, blocks that leave too early, and a flag
// that orders nothing.
// arch: sm_90
#include "bulk.cuh"
#include "sync.cuh"

__device__ void begin(Barrier* barrier) {
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_ready();
        barrier_expect(barrier, 32 * 16);
    }
    cluster_sync();
}

// The first block waits for the phase before the one in which the numbers arrive.
extern "C" __global__ void waits_for_the_phase_before(float* y) {
    __shared__ __align__(16) float numbers[128];
    __shared__ Barrier arrived;
    begin(&arrived);
    if (cluster_rank() == 1u) {
        send_four(numbers + 4 * threadIdx.x, make_float4(1, 2, 3, 4), &arrived, 0);  // <-
    } else {
        barrier_ended_in_cluster(&arrived, 1);
        y[threadIdx.x] = numbers[threadIdx.x];  // <-
        __syncthreads();
        barrier_ended_in_cluster(&arrived, 0);
    }
    cluster_sync();
}

// The second block leaves without waiting for what the first one sends.
extern "C" __global__ void sends_to_a_block_that_left() {
    __shared__ __align__(16) float numbers[128];
    __shared__ Barrier arrived;
    begin(&arrived);
    if (cluster_rank() == 0u)
        send_four(numbers + 4 * threadIdx.x, make_float4(1, 2, 3, 4), &arrived, 1);  // <-
}

// No wait of the cluster comes after the last write into the other block.
extern "C" __global__ void writes_to_a_block_that_left(float* y) {
    __shared__ float numbers[32];
    numbers[threadIdx.x] = 0.0f;
    cluster_sync();
    shared_of(numbers, cluster_rank() ^ 1u)[threadIdx.x] = 1.0f;  // <-
    y[32 * blockIdx.x + threadIdx.x] = 1.0f;
}

// The number that is sent says that another one is there, which nothing orders.
extern "C" __global__ void flag_without_a_fence(float* y) {
    __shared__ __align__(16) float flags[128];
    __shared__ float numbers[32];
    __shared__ Barrier arrived;
    begin(&arrived);
    const unsigned other = cluster_rank() ^ 1u;
    shared_of(numbers, other)[threadIdx.x] = 1.0f;  // <-
    send_four(flags + 4 * threadIdx.x, make_float4(1, 1, 1, 1), &arrived, other);
    barrier_ended_in_cluster(&arrived, 0);
    if (threadIdx.x < 32) y[32 * blockIdx.x + threadIdx.x] = numbers[threadIdx.x] * flags[threadIdx.x];  // <-
    cluster_sync();
}

// A number is sent to where the second block still reads.
extern "C" __global__ void sent_under_a_read(float* y) {
    __shared__ __align__(16) float numbers[128];
    __shared__ Barrier arrived;
    for (int i = threadIdx.x; i < 128; i += 32) numbers[i] = i;
    begin(&arrived);
    if (cluster_rank() == 0u) {
        send_four(numbers + 4 * threadIdx.x, make_float4(1, 2, 3, 4), &arrived, 1);  // <-
    } else {
        y[threadIdx.x] = numbers[threadIdx.x];  // <-
        barrier_ended_in_cluster(&arrived, 0);
    }
    cluster_sync();
}
