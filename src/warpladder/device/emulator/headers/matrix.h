// Tensor cores, for the helpers in device/include/mma.cuh: the words in a lane's registers become numbers, which
// runtime/tensor.cpp multiplies.
#pragma once
#include "bfloat16.h"
#include "memory.h"

namespace emu {

enum class Factors { half, bfloat16, tf32 };

inline unsigned tf32_bits(float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    if ((bits & 0x7f800000) == 0x7f800000) return bits;
    return (bits + 0x1000) & 0xffffe000;
}

// Numbers in the words of a fragment: two of 16 bits in each, the lower one first, or one of tf32, whose lower 13 bits
// are ignored.
template <int WORDS> EMU_UNSEEN inline void unpack(float* out, const unsigned (&words)[WORDS], Factors factors) {
    for (int i = 0; i < WORDS; ++i) {
        if (factors == Factors::tf32) {
            out[i] = __builtin_bit_cast(float, words[i] & 0xffffe000);
            continue;
        }
        for (int part = 0; part < 2; ++part) {
            unsigned short bits = (unsigned short)(words[i] >> 16 * part);
            out[2 * i + part] = factors == Factors::half ? half_value(bits) : bfloat16_value(bits);
        }
    }
}

EMU_UNSEEN inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Factors factors,
    const char* file, int line) {
    float left[8], right[4];
    unpack(left, a, factors);
    unpack(right, b, factors);
    unsigned word = factors == Factors::tf32 ? 1 : 2;
    emu_multiply(d, left, right, {16, 8, 8 * word, word, 8 * word, factors == Factors::half ? -14 : -126}, "mma", file,
        line);
}

// The lane reads the 16 bytes of its row, which the checker and the sanitizers see, and the warp distributes them.
template <int COUNT> EMU_INLINE void load_matrices(unsigned (&out)[COUNT], const void* row, bool turned,
    const char* file, int line) {
    uint4 mine{};
    if (lane() < 8 * COUNT) {
        if (!__isShared(row)) emu_trap("ldmatrix reads memory outside of its block's shared memory", file, line);
#ifndef EMU_ASAN  // AddressSanitizer reports it itself
        if (uintptr_t(row) % sizeof mine) emu_misaligned(row, sizeof mine, "row of ldmatrix", file, line);
#endif
        mine = *static_cast<const uint4*>(row);
    }
    emu_load_matrices(out, &mine, COUNT, turned, file, line);
}

}  // namespace emu
