#include <cstdio>
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void g(const half* a, const half* b, float* c, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    int r = blockIdx.y * 16, q = blockIdx.x * 16;
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + r * n + k, n);
        wmma::load_matrix_sync(fb, b + q * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
    wmma::store_matrix_sync(c + r * n + q, fc, n, wmma::mem_row_major);
}
__global__ void gi(const signed char* a, const signed char* b, int* c) {
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> fc;
    wmma::fill_fragment(fc, 1);
    wmma::load_matrix_sync(fa, a, 32); wmma::load_matrix_sync(fb, b, 8);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 32, wmma::mem_col_major);
}
__global__ void gd(const double* a, const double* b, double* c) {
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
    wmma::fill_fragment(fc, 0.0);
    wmma::load_matrix_sync(fa, a, 4); wmma::load_matrix_sync(fb, b, 4);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}
__global__ void gt(const float* a, const float* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::load_matrix_sync(fa, a, 8); wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
int main() {
    int n = 64; half *a, *b; float* c;
    cudaMallocManaged(&a, n * n * sizeof(half)); cudaMallocManaged(&b, n * n * sizeof(half)); cudaMallocManaged(&c, n * n * sizeof(float));
    for (int i = 0; i < n * n; ++i) a[i] = half((i * 7) % 11), b[i] = half((i * 3) % 5);
    g<<<dim3(n / 16, n / 16), 32>>>(a, b, c, n);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    int bad = 0;
    for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { float s = 0; for (int k = 0; k < n; ++k) s += float(a[i*n+k]) * float(b[j*n+k]); bad += !(c[i*n+j] == 2 * s); }
    signed char *ia, *ib; int* ic; double *da, *db, *dc; float *ta, *tb, *tc;
    cudaMallocManaged(&ia, 512); cudaMallocManaged(&ib, 128); cudaMallocManaged(&ic, 1024);
    cudaMallocManaged(&da, 256); cudaMallocManaged(&db, 256); cudaMallocManaged(&dc, 512);
    cudaMallocManaged(&ta, 512); cudaMallocManaged(&tb, 512); cudaMallocManaged(&tc, 1024);
    for (int i = 0; i < 512; ++i) ia[i] = i * 5 % 251 - 120;
    for (int i = 0; i < 128; ++i) ib[i] = i * 7 % 241 - 120, ta[i] = i % 9, tb[i] = i % 7;
    for (int i = 0; i < 32; ++i) da[i] = i * 0.5, db[i] = i * 0.25;
    for (int i = 0; i < 256; ++i) tc[i] = 3;
    gi<<<1, 32>>>(ia, ib, ic); gd<<<1, 32>>>(da, db, dc); gt<<<1, 32>>>(ta, tb, tc);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    for (int i = 0; i < 32; ++i) for (int j = 0; j < 8; ++j) { int s = 1; for (int k = 0; k < 16; ++k) s += ia[k * 32 + i] * ib[k * 8 + j]; bad += ic[j * 32 + i] != s; }
    for (int i = 0; i < 8; ++i) for (int j = 0; j < 8; ++j) { double s = 0; for (int k = 0; k < 4; ++k) s += da[i*4+k] * db[j*4+k]; bad += !(dc[i*8+j] == s); }
    for (int i = 0; i < 16; ++i) for (int j = 0; j < 16; ++j) { float s = 3; for (int k = 0; k < 8; ++k) s += ta[i*8+k] * tb[k*16+j]; bad += !(tc[i*16+j] == s); }
    printf("bad %d\n", bad);
    cudaFree(a); cudaFree(b); cudaFree(c); cudaFree(ia); cudaFree(ib); cudaFree(ic); cudaFree(da); cudaFree(db); cudaFree(dc); cudaFree(ta); cudaFree(tb); cudaFree(tc);
}
