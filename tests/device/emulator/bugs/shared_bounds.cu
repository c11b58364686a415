// Shared memory that is overrun.
constexpr int TILE = 16;

// The inner loop runs once too often: the row of one tile ends, the column of the other too.
extern "C" __global__ void step_too_many(const float* a, const float* b, float* c) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    left[y][x] = a[y * TILE + x];
    right[y][x] = b[y * TILE + x];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= TILE; ++k) sum += left[y][k] * right[k][x];  // <-
    c[y * TILE + x] = sum;
}

// A tile of rows of 17 is filled as if they had 18.
extern "C" __global__ void wrong_pitch(const float* a, float* c) {
    __shared__ float tile[TILE][TILE + 1];
    float* flat = &tile[0][0];
    int x = threadIdx.x, y = threadIdx.y;
    flat[y * 18 + x] = a[y * TILE + x];  // <-
    __syncthreads();
    c[y * TILE + x] = flat[y * 18 + x];
}

// The same in a template: one element beyond the last.
template <int N> __global__ void shifted_by_one(const float* x, float* y) {
    __shared__ float kept[N];
    float* place = kept + threadIdx.x;
    place[1] = x[threadIdx.x];  // <-
    __syncthreads();
    y[threadIdx.x] = kept[threadIdx.x == 0 ? 1 : threadIdx.x];
}

// Four partial sums, and room for two.
extern "C" __global__ void dynamic_too_small(const float* x, float* y) {
    extern __shared__ float sums[];
    float v = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;  // <-
    __syncthreads();
    if (threadIdx.x == 0) y[0] = sums[0] + sums[1] + sums[2] + sums[3];
}

// Two arrays are cut from one piece of shared memory: n of each, and the second is written one further.
extern "C" __global__ void carved_too_long(const float* x, float* y, int n) {
    extern __shared__ float room[];
    float *first = room, *second = room + n;
    int t = threadIdx.x;
    first[t] = x[t];
    second[t + 1] = x[t];  // <-
    __syncthreads();
    y[t] = first[n - 1 - t] + (t > 0 ? second[t] : 0.0f);
}

// Two variables side by side: what is written behind the first must not be taken for a race on the second.
extern "C" __global__ void into_the_neighbour(const float* x, float* y) {
    __shared__ float near[32], far[32];
    int t = threadIdx.x;
    far[t] = 0.0f;
    near[t + 4] = x[t];  // <-
    __syncthreads();
    y[t] = near[t] + far[t];
}
