// Step of a matrix product by the tensor cores: d += a b, by a whole warp, a fragment for each lane; and loads.
//
// With g = lane / 4 and t = lane % 4 a lane has, of d (16, 8) float32,
//     d[0], d[1] = row g, columns 2t and 2t + 1;  d[2], d[3] = the same of row g + 8;
// of a (16, 16) and b (16, 8) of 16-bit numbers, two in each word, the lower one first,
//     a[0] = row g, columns 2t, 2t + 1;  a[1] = row g + 8;  a[2], a[3] = the same 8 columns further;
//     b[0] = rows 2t, 2t + 1 of column g;  b[1] = 8 rows further;
// of a (16, 8) and b (8, 8) of 16-bit numbers a[0], a[1] and b[0] alone;
// of a (16, 8) and b (8, 8) in tf32, one in each word,
//     a[0] = (g, t), a[1] = (g + 8, t), a[2] = (g, t + 4), a[3] = (g + 8, t + 4);  b[0] = (t, g), b[1] = (t + 4, g).
// The tensor cores truncate what they add. bf16, tf32, and half in this shape need sm_80 or newer.
#pragma once

#ifdef __CUDA_EMU__

__device__ inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::bfloat16, file, line);
}
__device__ inline void mma_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::half, file, line);
}
__device__ inline void mma_eight(float (&d)[4], const unsigned (&a)[2], unsigned b, EMU_HERE) {
    emu::multiply(d, {a[0], a[1], 0, 0}, {b, 0}, emu::Factors::half, file, line);
}
__device__ inline void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::tf32, file, line);
}
template <int COUNT>
__device__ __forceinline__ void load_matrices(unsigned (&out)[COUNT], const void* row, EMU_HERE) {
    emu::load_matrices(out, row, false, file, line);
}
template <int COUNT>
__device__ __forceinline__ void load_matrices_turned(unsigned (&out)[COUNT], const void* row, EMU_HERE) {
    emu::load_matrices(out, row, true, file, line);
}
__device__ inline unsigned to_tf32(float x) { return emu::tf32_bits(x); }
__device__ inline unsigned two_bf16(float low, float high) {
    return emu::bfloat16_bits(low) | unsigned(emu::bfloat16_bits(high)) << 16; }
__device__ inline unsigned two_halves(float low, float high) {
    return emu::half_bits(low) | unsigned(emu::half_bits(high)) << 16; }
__device__ inline float low_half(unsigned two) { return emu::half_value((unsigned short)two); }
__device__ inline float high_half(unsigned two) { return emu::half_value((unsigned short)(two >> 16)); }

#elif __CUDA_ARCH__ >= 800

#define MMA_STEP(name, instruction)                                                                                    \
    __device__ __forceinline__ void name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {              \
        asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
MMA_STEP(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_STEP(mma_half, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_STEP(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
#undef MMA_STEP

// Eight terms, halves.
__device__ __forceinline__ void mma_eight(float (&d)[4], const unsigned (&a)[2], unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

// Loads COUNT matrices (1, 2 or 4) of 8 x 8 numbers of 16 bits from shared memory. Lane 8 i + r passes row r of matrix
// i, 16 bytes at a multiple of 16; out[i] is of matrix i, as in a fragment of a: row lane / 4, columns 2 (lane % 4) and
// the next one. Turned: rows and columns exchanged, as in a fragment of b whose rows are contiguous. Rows may also hold
// four floats, and out[i] is then number lane % 4 of row lane / 4.
#define LOAD_MATRICES(name, how)                                                                                       \
    __device__ __forceinline__ void name(unsigned (&out)[1], const void* row) {                                        \
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" how ".shared.b16 {%0}, [%1];" \
                     : "=r"(out[0]) : "r"(from) : "memory"); \
    }                                                                                                                  \
    __device__ __forceinline__ void name(unsigned (&out)[2], const void* row) {                                        \
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" how ".shared.b16 {%0, %1}, [%2];"                                 \
                     : "=r"(out[0]), "=r"(out[1]) : "r"(from) : "memory");                                             \
    }                                                                                                                  \
    __device__ __forceinline__ void name(unsigned (&out)[4], const void* row) {                                        \
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];"                         \
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(from) : "memory");                 \
    }
LOAD_MATRICES(load_matrices, "")
LOAD_MATRICES(load_matrices_turned, ".trans")
#undef LOAD_MATRICES

// A float rounded to the 10 bits that tf32 keeps, ties away from zero.
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Two floats rounded to 16 bits each, in one word, to the nearest, ties to even; and back.
__device__ inline unsigned two_bf16(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline unsigned two_halves(float low, float high) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline float low_half(unsigned two) {
    float x;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(x) : "r"(two));
    return x;
}
__device__ inline float high_half(unsigned two) { return low_half(two >> 16); }

#endif
