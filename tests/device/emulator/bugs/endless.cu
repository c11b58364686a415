// Threads that wait for something that never comes, and threads that give up.

// The flag is set by a thread that itself waits for the flag.
extern "C" __global__ void flag_that_nobody_sets(int* flag) {
    while (atomicAdd(flag, 0) == 0) {  // <-
    }
    if (threadIdx.x == 0) atomicExch(flag, 1);
}

// The first warp polls a flag that the second one sets after a barrier, which waits for the first warp.
extern "C" __global__ void flag_after_the_barrier(volatile int* flag) {
    if (threadIdx.x < 32)
        while (*flag == 0) {  // <-
        }
    __syncthreads();  // <-
    if (threadIdx.x == 32) *flag = 1;
}

// A lock that is taken twice by the same thread.
extern "C" __global__ void lock_taken_twice(int* lock, int* counter) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    while (atomicCAS(lock, 0, 1) != 0) {  // <-
    }
    *counter += 1;
    atomicExch(lock, 0);
}

extern "C" __global__ void divide_by_zero(const int* x, int* y, int by) {
    y[threadIdx.x] = x[threadIdx.x] / by;  // <-
}

extern "C" __global__ void assertion(const int* x, int* y) {
    assert(x[threadIdx.x] < 3);  // <-
    y[threadIdx.x] = 1;
}

extern "C" __global__ void trapped(const int* x, int* y) {
    y[threadIdx.x] = 1;
    if (x[threadIdx.x] > 2) __trap();  // <-
}
