// What tensor cores do, for the helpers in cu/mma.cuh: products are exact, their sum is rounded once.
#pragma once
#include "bfloat16.h"

namespace emu {

enum class Factors { half, bfloat16, tf32 };

inline unsigned tf32_bits(float x) {
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7f800000) == 0x7f800000) return bits;
    return (bits + 0x1000) & 0xffffe000;
}

struct Lanes {  // of one lane, what it hands in and gets back
    float* d;
    const unsigned *a, *b;
    Factors factors;
};

EMU_UNSEEN inline void multiply_lanes(void** payloads) {
    Lanes* lanes[32];
    for (int i = 0; i < 32; ++i)
        if (!(lanes[i] = static_cast<Lanes*>(payloads[i]))) return;
    Factors factors = lanes[0]->factors;
    int depth = factors == Factors::tf32 ? 8 : 16;
    static thread_local double a[16][16], b[16][8];
    auto value = [factors](unsigned word, int part) {
        if (factors == Factors::tf32) return std::bit_cast<float>(word & 0xffffe000);
        unsigned short bits = (unsigned short)(word >> 16 * part);
        return factors == Factors::half ? half_value(bits) : bfloat16_value(bits);
    };
    for (int lane = 0; lane < 32; ++lane) {
        int g = lane / 4, t = lane % 4;
        for (int word = 0; word < 4; ++word) {
            int row = g + 8 * (word & 1), further = word >> 1;
            if (depth == 8) a[row][t + 4 * further] = value(lanes[lane]->a[word], 0);
            else for (int part = 0; part < 2; ++part) a[row][2 * t + part + 8 * further] = value(lanes[lane]->a[word], part);
        }
        for (int word = 0; word < 2; ++word) {
            if (depth == 8) b[t + 4 * word][g] = value(lanes[lane]->b[word], 0);
            else for (int part = 0; part < 2; ++part) b[2 * t + part + 8 * word][g] = value(lanes[lane]->b[word], part);
        }
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            int row = lane / 4 + 8 * (i >> 1), column = 2 * (lane % 4) + (i & 1);
            double sum = lanes[lane]->d[i];
            for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
            lanes[lane]->d[i] = float(sum);
        }
}

inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Factors factors, const char* file, int line) {
    Lanes mine{d, a, b, factors};
    emu_collective(0xffffffffu, &mine, multiply_lanes, "mma", file, line);
}

}  // namespace emu
