// One step of a matrix product by the tensor cores: d += a b, by a whole warp, each lane with its share.
//
// With g = lane / 4 and t = lane % 4 a lane has, of d (16, 8) float32,
//     d[0], d[1] = row g, columns 2t and 2t + 1;  d[2], d[3] = the same of row g + 8;
// of a (16, 16) and b (16, 8) of 16-bit numbers, two in each word, the lower one first,
//     a[0] = row g, columns 2t, 2t + 1;  a[1] = row g + 8;  a[2], a[3] = the same 8 columns further;
//     b[0] = rows 2t, 2t + 1 of column g;  b[1] = 8 rows further;
// of a (16, 8) and b (8, 8) in tf32, one in each word,
//     a[0] = (g, t), a[1] = (g + 8, t), a[2] = (g, t + 4), a[3] = (g + 8, t + 4);  b[0] = (t, g), b[1] = (t + 4, g).
// bf16 and tf32 want sm_80 or newer, half sm_80 for this shape.
#pragma once

#ifdef __CUDA_EMU__

__device__ inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::bfloat16, file, line);
}
__device__ inline void mma_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::half, file, line);
}
__device__ inline void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_HERE) {
    emu::multiply(d, a, b, emu::Factors::tf32, file, line);
}
__device__ inline unsigned to_tf32(float x) { return emu::tf32_bits(x); }

#elif __CUDA_ARCH__ >= 800

#define MMA_STEP(name, instruction)                                                                                               \
    __device__ inline void name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {                                   \
        asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
    }
MMA_STEP(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_STEP(mma_half, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_STEP(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
#undef MMA_STEP

// A float rounded to the 10 bits that tf32 keeps, ties away from zero.
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

#endif
