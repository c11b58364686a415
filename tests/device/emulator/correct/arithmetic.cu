// Types and functions of CUDA C++.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mma.cuh"

__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int counted;

extern "C" __global__ void halves(const float* x, unsigned short* half_bits, unsigned short* bfloat_bits, float* back) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half h = __float2half(x[i]);
    const __nv_bfloat16 b = __float2bfloat16(x[i]);
    half_bits[i] = __half_as_ushort(h);
    bfloat_bits[i] = __bfloat16_as_ushort(b);
    back[2 * i] = __half2float(h);
    back[2 * i + 1] = __bfloat162float(b);
}

extern "C" __global__ void vectors(const float4* x, float* y) {
    const float4 v = x[threadIdx.x];
    const float2 p = make_float2(v.x + v.z, v.y + v.w);
    y[threadIdx.x] = p.x * weights[0] + p.y * weights[3];
}

extern "C" __global__ void functions(const float* x, float* y) {
    const float v = x[threadIdx.x];
    float* out = y + 16 * threadIdx.x;
    out[0] = __expf(v), out[1] = rsqrtf(fabsf(v) + 1.0f), out[2] = fmaxf(v, 0.0f), out[3] = min(v, 0.25f);
    out[4] = __fdividef(v, 3.0f), out[5] = __saturatef(v), out[6] = __int_as_float(__float_as_int(v));
    out[7] = __float2int_rn(v * 2.5f), out[8] = __popc(threadIdx.x), out[9] = __clz(threadIdx.x),
        out[10] = __brev(threadIdx.x) >> 24;
    out[11] = tanhf(v), out[12] = __fmul_rn(v, v) - v * v, out[13] = __umulhi(0x80000000u, threadIdx.x),
        out[14] = fmaxf(v, __int_as_float(0x7fffffff));
    out[15] = __float2int_rz(1e20f) == 2147483647;
}

template <typename T, int N> __global__ void scaled(const T* x, T* y, T by) {
#pragma unroll
    for (int i = 0; i < N; ++i) y[N * threadIdx.x + i] = by * x[N * threadIdx.x + i];
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    const int t = threadIdx.x;
    atomicAdd(&i[0], t), atomicSub(&i[1], t), atomicMax(&i[2], t), atomicMin(&i[3], t), atomicExch(&i[4], 7);
    atomicOr(&u[0], 1u << t % 32), atomicAnd(&u[1], ~(1u << t % 32)), atomicXor(&u[2], 1u << t % 32),
        atomicInc(&u[3], 9u), atomicDec(&u[4], 9u);
    atomicAdd(&l[0], 1ull << 40), atomicMax(&l[1], 3ull * t);
    atomicAdd(&f[0], 1.0f), atomicAdd_block(&f[1], 0.5f), atomicAdd_system(&d[0], 0.25);
    atomicCAS(&i[5], t, t + 1);
    if (atomicAdd(&counted, 1) == blockDim.x - 1) i[6] = atomicExch(&counted, 0);
}

// c (16, 8) = a (16, k) b (k, 8) for one warp; b is given by columns.
extern "C" __global__ void bf16_product(const unsigned short* a, const unsigned short* b, float* c, int k) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    for (int first = 0; first < k; first += 16) {
        unsigned left[4], right[2];
        for (int i = 0; i < 4; ++i)
            left[i] = *reinterpret_cast<const unsigned*>(&a[(g + 8 * (i & 1)) * k + first + 2 * t + 8 * (i >> 1)]);
        for (int i = 0; i < 2; ++i) right[i] = *reinterpret_cast<const unsigned*>(&b[g * k + first + 2 * t + 8 * i]);
        mma_bf16(d, left, right);
    }
    for (int i = 0; i < 4; ++i) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
}

extern "C" __global__ void half_product(const unsigned short* a, const unsigned short* b, float* c) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    unsigned left[4], right[2];
    for (int i = 0; i < 4; ++i)
        left[i] = *reinterpret_cast<const unsigned*>(&a[(g + 8 * (i & 1)) * 16 + 2 * t + 8 * (i >> 1)]);
    for (int i = 0; i < 2; ++i) right[i] = *reinterpret_cast<const unsigned*>(&b[g * 16 + 2 * t + 8 * i]);
    mma_half(d, left, right);
    for (int i = 0; i < 4; ++i) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
}

extern "C" __global__ void tf32_product(const float* a, const float* b, float* c) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    const unsigned left[4] = {to_tf32(a[g * 8 + t]), to_tf32(a[(g + 8) * 8 + t]), to_tf32(a[g * 8 + t + 4]),
        to_tf32(a[(g + 8) * 8 + t + 4])};
    const unsigned right[2] = {to_tf32(b[g * 8 + t]), to_tf32(b[g * 8 + t + 4])};
    mma_tf32(d, left, right);
    for (int i = 0; i < 4; ++i) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
}

// Atomic operations in a source that has volatile accesses too.
extern "C" __global__ void mixed(volatile int* seen, int* i, unsigned short* s, unsigned long long* l) {
    atomicAdd(i, 1);
    atomicCAS(s, static_cast<unsigned short>(0), static_cast<unsigned short>(5));
    atomicMax(l, 7ull);
    if (threadIdx.x == 0) *seen = 1;
}
