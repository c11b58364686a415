// Rounding in every direction, ticks in kernels, and libraries: products of a batch by cuBLAS and of a sparse matrix by
// cuSPARSE.
#include <cublas_v2.h>
#include <cusparse.h>

#include <cstdio>
#include <ctime>

__global__ void rounded(float* f, double* d, float one, float three) {
    f[0] = __fadd_rd(one, 1e-10f), f[1] = __fadd_ru(one, 1e-10f), f[2] = __fdiv_rz(-one, three);
    f[3] = __fdiv_rd(-one, three), f[4] = __fmul_ru(three, 0.1f), f[5] = __fsqrt_rd(three);
    f[6] = __fsqrt_ru(three), f[7] = __frcp_ru(three), f[8] = __fmaf_rd(-one, one, 1 + 1e-10f);
    f[9] = __double2float_ru(0.1), f[10] = __double2float_rd(0.1), f[11] = __int2float_rz(16777217);
    d[0] = __dadd_ru(1, 1e-20), d[1] = __ddiv_rd(1, 3), d[2] = __ddiv_ru(1, 3);
}

// Lanes of halves of a warp: bits beyond the half lead out of it, and the lane gets its own value, as -8 does with all.
__global__ void exchanged(int* x) {
    int lane = threadIdx.x;
    x[lane] = __shfl_xor_sync(0xffffu, lane, 9, 16) == (lane ^ 9) && __shfl_xor_sync(0xffffu, lane, -8, 16) == lane;
}

__global__ void wait(clock_t* spent) {
    clock_t start = clock();
    while (clock() - start < 1000000) {}
    *spent = clock() - start;
}

int main() {
    float *f, *m, **p;
    double* d;
    clock_t* spent;
    int *s, same = 0;
    cudaMallocManaged(&f, 12 * sizeof(float)), cudaMallocManaged(&d, 3 * sizeof(double));
    cudaMallocManaged(&spent, sizeof(clock_t));
    rounded<<<1, 1>>>(f, d, 1, 3);
    wait<<<1, 1>>>(spent);
    cudaDeviceSynchronize();
    for (int i = 0; i < 12; ++i) printf("%.9g ", f[i]);
    printf("\n%.17g %.17g %.17g %d\n", d[0], d[1], d[2], *spent < 500000000);

    const float matrices[] = {1, 2, 3, 4, 5, 6, 7, 8}, one = 1, none = 0, two = 2;
    cudaMallocManaged(&m, 16 * sizeof(float)), cudaMallocManaged(&p, 6 * sizeof(float*));
    for (int i = 0; i < 8; ++i) m[i] = matrices[i], m[8 + i] = 0;
    for (int i = 0; i < 2; ++i) p[i] = m + 4 * i, p[2 + i] = m + 4, p[4 + i] = m + 8 + 4 * i;
    cublasHandle_t dense;
    cublasCreate(&dense);
    cublasSgemmBatched(dense, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, p, 2, p + 2, 2, &none, p + 4, 2, 2);
    cudaDeviceSynchronize();
    for (int i = 8; i < 16; ++i) printf("%g ", m[i]);

    const int indices[] = {0, 2, 3, 0, 1, 1};
    cudaMallocManaged(&s, 16 * sizeof(int));
    exchanged<<<1, 16>>>(s);
    cudaDeviceSynchronize();
    for (int i = 0; i < 16; ++i) same += s[i];
    printf("\n%d", same);
    for (int i = 0; i < 6; ++i) s[i] = indices[i];
    cusparseHandle_t sparse;
    cusparseSpMatDescr_t a;
    cusparseDnVecDescr_t x, y;
    cusparseCreate(&sparse);
    cusparseCreateCsr(&a, 2, 2, 3, s, s + 3, m, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
        CUDA_R_32F);
    cusparseCreateDnVec(&x, 2, m + 4, CUDA_R_32F), cusparseCreateDnVec(&y, 2, m + 8, CUDA_R_32F);
    cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, x, &two, y, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT,
        nullptr);
    cudaDeviceSynchronize();
    printf("\n%g %g\n", m[8], m[9]);
    cusparseDestroyDnVec(x), cusparseDestroyDnVec(y), cusparseDestroySpMat(a), cusparseDestroy(sparse);
    cublasDestroy(dense);
    cudaFree(f), cudaFree(d), cudaFree(spent), cudaFree(m), cudaFree(p), cudaFree(s);
}
