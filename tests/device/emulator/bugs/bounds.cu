// Reads and writes outside of the arrays that a kernel was given.

// c (m, n) = a (m, k) b (k, n): the guard lets one row too many in.
extern "C" __global__ void row_too_many(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row > m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];  // <-
    c[row * n + column] = sum;
}

// y (rows, columns) = x: nobody asks whether the column exists, and the last row is written beyond its end.
extern "C" __global__ void no_column_guard(const float* x, float* y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (row < rows) y[row * columns + column] = 1.0f;  // <-
    if (x == nullptr) y[0] = 0.0f;
}

// y[i] = the mean of x[i - 1], x[i], x[i + 1]: the left neighbour of the first is looked for.
extern "C" __global__ void no_left_border(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 1) return;
    y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0f;  // <-
}

// y = relu(x), four at a time: one group of four too many.
extern "C" __global__ void group_too_many(const float4* x, float4* y, int groups) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > groups) return;
    float4 v = x[i];  // <-
    v.x = fmaxf(v.x, 0.0f), v.y = fmaxf(v.y, 0.0f), v.z = fmaxf(v.z, 0.0f), v.w = fmaxf(v.w, 0.0f);
    y[i] = v;
}

// A thread's own array is one shorter than the loop over it.
extern "C" __global__ void local_too_short(const float* x, float* y, int n) {
    float kept[3];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < n; ++j) kept[j] = x[i + j];  // <-
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += kept[j];
    y[i] = sum;
}

// An optional array that is not there is read all the same.
extern "C" __global__ void null_bias(const float* x, const float* bias, float* y) {
    int i = threadIdx.x;
    y[i] = x[i] + bias[i];  // <-
}

// The histogram has as many bins as the largest value, and not one more.
extern "C" __global__ void bin_too_few(const int* x, int* bins) {
    atomicAdd(&bins[x[threadIdx.x]], 1);  // <-
}
