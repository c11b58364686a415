// Sobol sequences of 32 and 64 bits: the generator in Gray code order, and direction vectors of 20 dimensions after Joe
// and Kuo, new-joe-kuo-6.
#pragma once
#include "../emulator.h"

using curandDirectionVectors32_t = unsigned[32];
using curandDirectionVectors64_t = unsigned long long[64];

namespace emu {

template <class W> struct Sobol {
    static constexpr int BITS = 8 * sizeof(W);
    unsigned long long i;
    W x, directions[BITS];
};
constexpr unsigned SOBOL_DIMENSIONS = 20;
struct Primitive { unsigned degree, polynomial, first[7]; };
// Degree and inner coefficients of a primitive polynomial, and the first direction numbers; of the dimensions from 1.
inline const Primitive PRIMITIVES[SOBOL_DIMENSIONS - 1] = {
    {1, 0, {1}}, {2, 1, {1, 3}}, {3, 1, {1, 3, 1}}, {3, 2, {1, 1, 1}}, {4, 1, {1, 1, 3, 3}}, {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}}, {5, 4, {1, 1, 5, 5, 5}}, {5, 7, {1, 1, 7, 11, 19}}, {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}}, {5, 14, {1, 3, 5, 5, 31}}, {6, 1, {1, 3, 3, 9, 7, 49}}, {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}}, {6, 19, {1, 1, 1, 15, 7, 5}}, {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}}, {7, 1, {1, 3, 7, 11, 23, 15, 103}}};

template <class W> void directions(unsigned dimension, W* v) {
    constexpr unsigned bits = 8 * sizeof(W);
    for (unsigned j = 0; j < bits; ++j) {
        unsigned degree = dimension ? PRIMITIVES[dimension - 1].degree : 0;
        if (dimension == 0) { v[j] = W(1) << (bits - 1 - j); continue; }
        const Primitive& p = PRIMITIVES[dimension - 1];
        if (j < degree) { v[j] = W(p.first[j]) << (bits - 1 - j); continue; }
        v[j] = v[j - degree] ^ v[j - degree] >> degree;
        for (unsigned k = 1; k < degree; ++k)
            if (p.polynomial >> (degree - 1 - k) & 1) v[j] ^= v[j - k];
    }
}

}  // namespace emu

struct curandStateSobol32 : emu::Sobol<unsigned> {};
struct curandStateSobol64 : emu::Sobol<unsigned long long> {};
using curandStateSobol32_t = curandStateSobol32;
using curandStateSobol64_t = curandStateSobol64;

template <class W> EMU_INLINE void skipahead(unsigned long long n, emu::Sobol<W>* state) {
    unsigned long long from = state->i ^ state->i >> 1, to = (state->i + n) ^ (state->i + n) >> 1;
    for (int j = 0; j < state->BITS; ++j) if ((from ^ to) >> j & 1) state->x ^= state->directions[j];
    state->i += n;
}
EMU_INLINE void curand_init(const unsigned* directions, unsigned offset, curandStateSobol32* state) {
    state->i = 0, state->x = 0;
    for (int j = 0; j < 32; ++j) state->directions[j] = directions[j];
    skipahead(offset, state);
}
EMU_INLINE void curand_init(const unsigned long long* directions, unsigned long long offset,
    curandStateSobol64* state) {
    state->i = 0, state->x = 0;
    for (int j = 0; j < 64; ++j) state->directions[j] = directions[j];
    skipahead(offset, state);
}
template <class W> EMU_INLINE W emu_next(emu::Sobol<W>* state) {
    W x = state->x;
    state->x ^= state->directions[__builtin_ctzll(~state->i++) % state->BITS];
    return x;
}
EMU_INLINE unsigned curand(curandStateSobol32* state) { return emu_next(state); }
EMU_INLINE unsigned long long curand(curandStateSobol64* state) { return emu_next(state); }
