#include <cstdio>
#include <cstdint>
#include <cuda_fp16.h>
__device__ __forceinline__ uint32_t lane() { uint32_t l; asm volatile("mov.u32 %0, %%laneid;" : "=r"(l)); return l; }
__device__ int add3(int a, int b, int c) { int d; asm("{\n\t.reg .s32 t;\n\tadd.s32 t, %1, %2;\n\tadd.s32 %0, t, %3;\n\t}" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
#define CP(dst, src) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
__global__ void misc(unsigned* out, float* f) {
    if (threadIdx.x == 0) {
        unsigned v;
        asm("bfe.u32 %0, %1, 4, 8;" : "=r"(v) : "r"(0xabcdu)); out[0] = v;
        asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(v) : "r"(0xf0f0u), "r"(0xccccu), "r"(0xaaaau)); out[1] = v;
        asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(v) : "r"(0x33221100u), "r"(0x77665544u)); out[2] = v;
        out[3] = add3(1, 2, 3);
        uint64_t w; asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(w) : "r"(0xffffffffu), "r"(2u), "l"((uint64_t)5)); out[4] = w >> 32; out[5] = (unsigned)w;
        unsigned lo, hi; asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %4, %5;" : "=r"(lo), "=r"(hi) : "r"(0xffffffffu), "r"(1u), "r"(2u), "r"(3u)); out[6] = lo; out[7] = hi;
        float x; asm("fma.rn.f32 %0, %1, %2, 0f3F800000;" : "=f"(x) : "f"(2.f), "f"(3.f)); f[0] = x;
        asm("{.reg .pred p; setp.gt.f32 p, %1, %2; selp.f32 %0, %1, %2, p;}" : "=f"(x) : "f"(2.f), "f"(9.f)); f[1] = x;
        asm volatile("st.global.f32 [%0], %1;" :: "l"(f + 2), "f"(5.5f) : "memory");
        float4 q; asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w) : "l"(f)); f[4] = q.z;
        unsigned o; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(o) : "l"(out + 8), "r"(4u) : "memory"); 
        asm volatile("red.global.add.u32 [%0], %1;" :: "l"(out + 8), "r"(o) : "memory");
        half2 h = __floats2half2_rn(1, 2), g = __floats2half2_rn(3, 4); unsigned r;
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(*(unsigned*)&h), "r"(*(unsigned*)&g)); out[9] = r;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(2.f), "f"(1.f)); out[10] = r;
        int s; asm("{ .reg .u32 i; mov.u32 i, 0; mov.u32 %0, 0;\n L1: add.u32 %0, %0, i; add.u32 i, i, 1; .reg .pred p; setp.lt.u32 p, i, 10; @p bra L1; }" : "=r"(s)); out[11] = s;
    }
    int v = threadIdx.x, y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 0x1, 0x1f, 0xffffffff;" : "=r"(y) : "r"(v));
    unsigned ball; asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff;}" : "=r"(ball) : "r"(v & 1));
    if (lane() == 3) out[12] = y, out[13] = ball;
}
__global__ void gemm(const half* A, const half* B, float* C) {   // 16x8x16
    __shared__ __align__(16) half a[16 * 16], b[16 * 8];
    int t = threadIdx.x;
    unsigned sa = (unsigned)__cvta_generic_to_shared(a + t * 8), sb = static_cast<unsigned>(__cvta_generic_to_shared(&b[t % 16 * 8]));
    CP(sa, A + t * 8);
    if (t < 16) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(sb), "l"(B + t * 8), "n"(16));
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
    __syncthreads();
    unsigned ra[4], rb[2]; float c[4] = {0, 0, 0, 0};
    unsigned pa = __cvta_generic_to_shared(a + (t % 16) * 16 + t / 16 * 8), pb = __cvta_generic_to_shared(b + (t % 16) * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    int g = t / 4, q = t % 4;
    C[g * 8 + 2 * q] = c[0]; C[g * 8 + 2 * q + 1] = c[1]; C[(g + 8) * 8 + 2 * q] = c[2]; C[(g + 8) * 8 + 2 * q + 1] = c[3];
}
__global__ void mb(int* out) {
    __shared__ alignas(8) unsigned long long bar; __shared__ int data;
    unsigned b = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(1));
    __syncthreads();
    if (threadIdx.x == 0) { data = 7; asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" :: "r"(b), "r"(0));
    out[threadIdx.x] = data;
}
int main() {
    unsigned* o; float* f; half *A, *B; float* C; int* m;
    cudaMallocManaged(&o, 64); cudaMallocManaged(&f, 64); cudaMallocManaged(&A, 512); cudaMallocManaged(&B, 256); cudaMallocManaged(&C, 512); cudaMallocManaged(&m, 128);
    for (int i = 0; i < 16; ++i) o[i] = 1, f[i] = 0;
    for (int i = 0; i < 256; ++i) A[i] = half(i % 13 - 6); for (int i = 0; i < 128; ++i) B[i] = half(i % 7 - 3);
    misc<<<1, 32>>>(o, f); printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    for (int i = 0; i < 14; ++i) printf("%x ", o[i]); for (int i = 0; i < 5; ++i) printf("%g ", f[i]); puts("");
    gemm<<<1, 32>>>(A, B, C); mb<<<1, 32>>>(m); printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    int bad = 0; for (int i = 0; i < 16; ++i) for (int j = 0; j < 8; ++j) { float s = 0; for (int k = 0; k < 16; ++k) s += float(A[i*16+k]) * float(B[k*8+j]); bad += !(s == C[i*8+j]); }
    printf("bad %d %d\n", bad, m[31]);
    cudaFree(o); cudaFree(f); cudaFree(A); cudaFree(B); cudaFree(C); cudaFree(m);
}
