#include <cstdio>
#include <cmath>
#include <vector>
#include <cufft.h>
#include <curand.h>
#include <cublas_v2.h>
int main() {
    const int n = 64; float2* d; cudaMallocManaged(&d, 2 * n * sizeof(float2)); for (int i = 0; i < n; ++i) d[i] = {float(i % 5), 1};
    cufftHandle p; cufftPlan1d(&p, n, CUFFT_C2C, 1); cufftExecC2C(p, d, d + n, CUFFT_FORWARD); cudaDeviceSynchronize();
    double re = 0, im = 0; for (int i = 0; i < n; ++i) { double a = -2 * M_PI * 3 * i / n; re += d[i].x * cos(a) - d[i].y * sin(a); im += d[i].x * sin(a) + d[i].y * cos(a); }
    printf("%d ", std::abs(d[n + 3].x - re) < 1e-3 && std::abs(d[n + 3].y - im) < 1e-3);
    cufftExecC2C(p, d + n, d + n, CUFFT_INVERSE); cudaDeviceSynchronize(); double e = 0; for (int i = 0; i < n; ++i) e = fmax(e, fabs(d[n + i].x / n - d[i].x)); printf("%d ", e < 1e-5);
    float* r; float2* c; cudaMallocManaged(&r, 2 * 6 * 10 * 4); cudaMallocManaged(&c, 6 * 6 * 8); for (int i = 0; i < 60; ++i) r[i] = i * i % 17;
    cufftHandle f, b; cufftPlan2d(&f, 6, 10, CUFFT_R2C); cufftPlan2d(&b, 6, 10, CUFFT_C2R); cufftExecR2C(f, r, c); cufftExecC2R(b, c, r + 60); cudaDeviceSynchronize();
    e = 0; for (int i = 0; i < 60; ++i) e = fmax(e, fabs(r[60 + i] / 60 - r[i])); printf("%d\n", e < 1e-4);
    curandGenerator_t g; curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT); curandSetPseudoRandomGeneratorSeed(g, 1234); float* u; cudaMalloc(&u, 100000 * 4); curandGenerateUniform(g, u, 100000);
    cublasHandle_t h; cublasCreate(&h); float s; cublasSasum(h, 100000, u, 1, &s); printf("%.2f ", s / 100000); curandGenerateNormal(g, u, 100000, 1, 2); cublasSasum(h, 100000, u, 1, &s); cublasSnrm2(h, 100000, u, 1, &s); printf("%.2f\n", s * s / 100000);
    std::vector<float> A{1, 2, 3, 4, 5, 6}, B{1, 0, 0, 1, 1, 1}, C(4); float *x, *y, *z; cudaMalloc(&x, 24); cudaMalloc(&y, 24); cudaMalloc(&z, 16); cublasSetMatrix(2, 3, 4, A.data(), 2, x, 2); cublasSetMatrix(3, 2, 4, B.data(), 3, y, 3);
    float one = 1, zero = 0; cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, x, 2, y, 3, &zero, z, 2); cublasGetMatrix(2, 2, 4, z, 2, C.data(), 2); printf("%g %g %g %g\n", C[0], C[1], C[2], C[3]);
    __half hx[8]; for (int i = 0; i < 8; ++i) hx[i] = __half(float(i)); __half* half; cudaMalloc(&half, sizeof hx); cudaMemcpy(half, hx, sizeof hx, cudaMemcpyHostToDevice); float *both, got[8]; cudaMalloc(&both, 32);
    cublasGemmStridedBatchedEx(h, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, half, CUDA_R_16F, 2, 4, half, CUDA_R_16F, 2, 4, &zero, both, CUDA_R_32F, 2, 4, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT); cudaMemcpy(got, both, 32, cudaMemcpyDeviceToHost); for (float v : got) printf("%g ", v);
    cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, half, CUDA_R_16F, 2, half, CUDA_R_16F, 2, &one, both, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT); cudaMemcpy(got, both, 16, cudaMemcpyDeviceToHost); printf("%g\n", got[3]); cudaFree(half); cudaFree(both);
    curandDestroyGenerator(g); cublasDestroy(h); cudaFree(d); cudaFree(r); cudaFree(c); cudaFree(u); cudaFree(x); cudaFree(y); cudaFree(z);
}
