// Numbers of cuRAND's generators in a kernel.
#include <cstdio>
#include <curand_kernel.h>
template <class S> __global__ void numbers(unsigned* x, double* y) {
    S state;
    curand_init(1234, 77, 1000003, &state);
    for (int i = 0; i < 3; ++i) x[i] = curand(&state);
    y[0] = curand_uniform(&state);
    y[1] = curand_uniform_double(&state);
    y[2] = curand_normal_double(&state), y[3] = curand_normal(&state), y[4] = curand_normal(&state);
    skipahead(12345, &state);
    x[4] = curand_poisson(&state, 10), x[3] = curand(&state);
}
int main() {
    unsigned* x; double* y;
    cudaMallocManaged(&x, 20); cudaMallocManaged(&y, 40);
    for (int kind = 0; kind < 3; ++kind) {
        if (kind == 0) numbers<curandState><<<1, 1>>>(x, y);
        if (kind == 1) numbers<curandStatePhilox4_32_10_t><<<1, 1>>>(x, y);
        if (kind == 2) numbers<curandStateMRG32k3a><<<1, 1>>>(x, y);
        cudaDeviceSynchronize();
        printf("%u %u %u %.9g %.17g %.5g %.5g %.5g %u %u\n", x[0], x[1], x[2], y[0], y[1], y[4], y[3], y[2], x[3], x[4]);
    }
    cudaFree(x); cudaFree(y);
}
