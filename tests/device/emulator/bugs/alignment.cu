// Addresses that a vector load cannot use.

// Four at a time from wherever the row begins.
extern "C" __global__ void row_begins_anywhere(const float* x, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    float4 v = *reinterpret_cast<const float4*>(row + 4 * threadIdx.x);  // <-
    y[4 * (blockIdx.x * blockDim.x + threadIdx.x)] = v.x + v.y + v.z + v.w;
}

// Doubles behind an odd number of floats.
extern "C" __global__ void doubles_behind_floats(const float* x, double* y) {
    extern __shared__ float room[];
    double* sums = reinterpret_cast<double*>(room + 33);
    room[threadIdx.x] = x[threadIdx.x];
    sums[threadIdx.x] = x[threadIdx.x];  // <-
    __syncthreads();
    y[threadIdx.x] = sums[31 - threadIdx.x] + room[threadIdx.x];
}
