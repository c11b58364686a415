// Random numbers in kernels, with the sequences of cuRAND: XORWOW (Marsaglia 2003), Philox 4x32-10 (Salmon and others
// 2011) and MRG32k3a (L'Ecuyer 1999). Integers and uniform numbers are equal bit by bit, normal ones to the last
// digits.
#pragma once
#include <array>

#include "../emulator.h"
#include "curand_sobol.h"

namespace emu {

// A step of XORWOW is a matrix of bits; powers of two of it jump ahead. [i]: 2^i steps, from 64 on 2^(67 + i - 64).
struct Xorwow {
    using Words = std::array<unsigned, 5>;
    using Matrix = std::array<Words, 160>;  // [bit]: what the bit becomes
    std::array<Matrix, 128> powers;

    EMU_UNSEEN static unsigned step(Words& v) {
        unsigned t = v[0] ^ v[0] >> 2;
        v = {v[1], v[2], v[3], v[4], v[4] ^ v[4] << 4 ^ t ^ t << 1};
        return v[4];
    }
    EMU_UNSEEN static Words times(const Matrix& matrix, const Words& v) {
        Words out{};
        for (unsigned bit = 0; bit < 160; ++bit)
            if (v[bit / 32] >> bit % 32 & 1)
                for (unsigned i = 0; i < 5; ++i) out[i] ^= matrix[bit][i];
        return out;
    }
    EMU_UNSEEN static Matrix squared(const Matrix& m) {
        Matrix out;
        for (unsigned bit = 0; bit < 160; ++bit) out[bit] = times(m, m[bit]);
        return out;
    }
    EMU_UNSEEN Xorwow() {
        for (unsigned bit = 0; bit < 160; ++bit) {
            powers[0][bit] = {};
            powers[0][bit][bit / 32] = 1u << bit % 32;
            step(powers[0][bit]);
        }
        for (unsigned i = 1; i < 64; ++i) powers[i] = squared(powers[i - 1]);
        Matrix far = powers[63];
        for (unsigned i = 64; i < 67; ++i) far = squared(far);
        for (unsigned i = 64; i < 128; ++i) powers[i] = far = squared(far);
    }
    EMU_UNSEEN static void jump(Words& v, unsigned long long by, unsigned first) {
        static const Xorwow table;
        for (unsigned i = first; by; ++i, by >>= 1)
            if (by & 1) v = times(table.powers[i], v);
    }
};

// Steps of MRG32k3a as matrices of numbers below a prime.
struct Mrg {
    static constexpr unsigned long long FIRST = 4294967087, SECOND = 4294944443;
    using Matrix = std::array<std::array<unsigned long long, 3>, 3>;
    EMU_UNSEEN static Matrix times(const Matrix& a, const Matrix& b, unsigned long long prime) {
        Matrix out{};
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                for (int k = 0; k < 3; ++k) out[i][j] = (out[i][j] + a[i][k] * b[k][j] % prime) % prime;
        return out;
    }
    // 2^doublings * by steps.
    EMU_UNSEEN static void jump(unsigned (&s)[3], Matrix m, unsigned long long prime, unsigned long long by,
        int doublings) {
        for (int i = 0; i < doublings; ++i) m = times(m, m, prime);
        Matrix v{{{s[0]}, {s[1]}, {s[2]}}};
        for (; by; by >>= 1, m = times(m, m, prime))
            if (by & 1) v = times(m, v, prime);
        for (int i = 0; i < 3; ++i) s[i] = unsigned(v[i][0]);
    }
    EMU_UNSEEN static void jump(unsigned (&one)[3], unsigned (&two)[3], unsigned long long by, int doublings) {
        jump(one, {{{0, 1, 0}, {0, 0, 1}, {FIRST - 810728, 1403580, 0}}}, FIRST, by, doublings);
        jump(two, {{{0, 1, 0}, {0, 0, 1}, {SECOND - 1370589, 0, 527612}}}, SECOND, by, doublings);
    }
};

EMU_UNSEEN inline uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        uint64_t one = uint64_t(0xD2511F53u) * counter.x, two = uint64_t(0xCD9E8D57u) * counter.z;
        counter = {unsigned(two >> 32) ^ counter.y ^ key.x, unsigned(two), unsigned(one >> 32) ^ counter.w ^ key.y,
            unsigned(one)};
        key = {key.x + 0x9E3779B9u, key.y + 0xBB67AE85u};
    }
    return counter;
}

constexpr float INVERSE = 2.3283064e-10f;                 // 2^-32
constexpr double INVERSE_DOUBLE = 1.1102230246251565e-16;  // 2^-53
inline float uniform(unsigned x) { return float(x) * INVERSE + INVERSE / 2; }
inline double uniform_double(unsigned x) { return x * 2.3283064365386963e-10 + 2.3283064365386963e-10; }
inline double uniform_double(unsigned x, unsigned y) {
    return double(x ^ (unsigned long long)y << 21) * INVERSE_DOUBLE + INVERSE_DOUBLE / 2; }
EMU_UNSEEN inline float2 box_muller(float u, float v) {
    float length = sqrtf(-2.0f * logf(u));
    return {length * sinf(v), length * cosf(v)};
}
inline float2 box_muller(unsigned x, unsigned y) {
    constexpr float turn = INVERSE * 6.2831855f;
    return box_muller(uniform(x), float(y) * turn + turn / 2);
}
EMU_UNSEEN inline double2 box_muller(double u, double half_turns) {
    double length = sqrt(-2.0 * log(u));
    return {length * sin(half_turns * M_PI), length * cos(half_turns * M_PI)};
}
inline double2 box_muller(uint4 x) {
    unsigned long long v = x.z ^ (unsigned long long)x.w << 21;
    return box_muller(uniform_double(x.x, x.y), double(v) * (2 * INVERSE_DOUBLE) + INVERSE_DOUBLE);
}

// The second of two normal numbers waits for the next call.
struct Spare {
    int has, has_double;
    float number;
    double number_double;
};

}  // namespace emu

struct curandStateXORWOW { unsigned d, v[5]; emu::Spare spare; };
struct curandStatePhilox4_32_10 { uint4 counter, output; uint2 key; unsigned used; emu::Spare spare; };
struct curandStateMRG32k3a { unsigned s1[3], s2[3]; emu::Spare spare; };
using curandStateXORWOW_t = curandStateXORWOW;
using curandState_t = curandStateXORWOW;
using curandState = curandStateXORWOW;
using curandStatePhilox4_32_10_t = curandStatePhilox4_32_10;
using curandStateMRG32k3a_t = curandStateMRG32k3a;

// ---- XORWOW
EMU_INLINE void emu_jump(curandStateXORWOW* state, unsigned long long by, unsigned first) {
    emu::Xorwow::Words v{state->v[0], state->v[1], state->v[2], state->v[3], state->v[4]};
    emu::Xorwow::jump(v, by, first);
    for (int i = 0; i < 5; ++i) state->v[i] = v[i];
}
EMU_INLINE void skipahead(unsigned long long n, curandStateXORWOW* state) {
    emu_jump(state, n, 0);
    state->d += 362437u * unsigned(n);
}
EMU_INLINE void skipahead_sequence(unsigned long long n, curandStateXORWOW* state) { emu_jump(state, n, 64); }
EMU_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
    curandStateXORWOW* state) {
    unsigned low = 1099087573u * (unsigned(seed) ^ 0xaad26b49u);
    unsigned high = 2591861531u * (unsigned(seed >> 32) ^ 0xf7dcefddu);
    *state = {6615241u + high + low,
        {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low}, {}};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}
EMU_INLINE unsigned curand(curandStateXORWOW* state) {
    unsigned t = state->v[0] ^ state->v[0] >> 2;
    for (int i = 0; i < 4; ++i) state->v[i] = state->v[i + 1];
    state->v[4] = state->v[4] ^ state->v[4] << 4 ^ t ^ t << 1;
    return state->v[4] + (state->d += 362437u);
}

// ---- Philox
EMU_INLINE void emu_advance(curandStatePhilox4_32_10* state, unsigned long long by, bool upper) {
    uint4 c = state->counter;
    unsigned __int128 value = (unsigned __int128)((unsigned long long)c.w << 32 | c.z) << 64
        | ((unsigned long long)c.y << 32 | c.x);
    value += upper ? (unsigned __int128)by << 64 : (unsigned __int128)by;
    state->counter = {unsigned(value), unsigned(value >> 32), unsigned(value >> 64), unsigned(value >> 96)};
    state->output = emu::philox(state->counter, state->key);
}
EMU_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
    unsigned used = state->used + unsigned(n & 3);
    state->used = used & 3;
    emu_advance(state, n / 4 + used / 4, false);
}
EMU_INLINE void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
    emu_advance(state, n, true); }
EMU_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
    curandStatePhilox4_32_10* state) {
    *state = {{}, {}, {unsigned(seed), unsigned(seed >> 32)}, 0, {}};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}
EMU_INLINE unsigned curand(curandStatePhilox4_32_10* state) {
    unsigned word = state->used == 0 ? state->output.x : state->used == 1 ? state->output.y
        : state->used == 2 ? state->output.z : state->output.w;
    if (++state->used == 4) {
        state->used = 0;
        emu_advance(state, 1, false);
    }
    return word;
}
EMU_INLINE uint4 curand4(curandStatePhilox4_32_10* state) {
    unsigned x = curand(state), y = curand(state), z = curand(state);
    return {x, y, z, curand(state)};
}

// ---- MRG32k3a
EMU_INLINE void emu_jump(curandStateMRG32k3a* state, unsigned long long by, int doublings) {
    unsigned one[] = {state->s1[0], state->s1[1], state->s1[2]}, two[] = {state->s2[0], state->s2[1], state->s2[2]};
    emu::Mrg::jump(one, two, by, doublings);
    for (int i = 0; i < 3; ++i) state->s1[i] = one[i], state->s2[i] = two[i];
}
EMU_INLINE void skipahead(unsigned long long n, curandStateMRG32k3a* state) { emu_jump(state, n, 0); }
EMU_INLINE void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a* state) { emu_jump(state, n, 76); }
EMU_INLINE void skipahead_sequence(unsigned long long n, curandStateMRG32k3a* state) { emu_jump(state, n, 127); }
EMU_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
    curandStateMRG32k3a* state) {
    *state = {{12345, 12345, 12345}, {12345, 12345, 12345}, {}};
    if (seed) {
        unsigned long long one = unsigned(seed) ^ 0x55555555u, two = unsigned(seed >> 32) ^ 0xAAAAAAAAu;
        for (int i = 0; i < 3; ++i) {
            state->s1[i] = unsigned(12345 * (i == 1 ? two : one) % emu::Mrg::FIRST);
            state->s2[i] = unsigned(12345 * (i == 1 ? one : two) % emu::Mrg::SECOND);
        }
    }
    skipahead_subsequence(sequence, state);
    skipahead(offset, state);
}
// A number from 1 to the first prime.
EMU_INLINE double emu_next(curandStateMRG32k3a* state) {
    using emu::Mrg;
    unsigned long long one = (1403580ull * state->s1[1] + 810728ull * (Mrg::FIRST - state->s1[0])) % Mrg::FIRST;
    unsigned long long two = (527612ull * state->s2[2] + 1370589ull * (Mrg::SECOND - state->s2[0])) % Mrg::SECOND;
    for (int i = 0; i < 2; ++i) state->s1[i] = state->s1[i + 1], state->s2[i] = state->s2[i + 1];
    state->s1[2] = unsigned(one), state->s2[2] = unsigned(two);
    return double(one <= two ? one + Mrg::FIRST - two : one - two);
}
EMU_INLINE unsigned curand(curandStateMRG32k3a* state) { return unsigned(emu_next(state) * 1.000000048662); }

// ---- distributions
template <class S> EMU_INLINE float curand_uniform(S* state) { return emu::uniform(curand(state)); }
EMU_INLINE float curand_uniform(curandStateMRG32k3a* state) { return float(emu_next(state) * 2.3283065498378288e-10); }
EMU_INLINE double curand_uniform_double(curandStateXORWOW* state) {
    unsigned x = curand(state);
    return emu::uniform_double(x, curand(state));
}
EMU_INLINE double curand_uniform_double(curandStatePhilox4_32_10* state) {
    return emu::uniform_double(curand(state)); }
EMU_INLINE double curand_uniform_double(curandStateMRG32k3a* state) {
    return emu_next(state) * 2.3283065498378288e-10; }
EMU_INLINE float curand_uniform(curandStateSobol64* state) { return emu::uniform(unsigned(curand(state) >> 32)); }
EMU_INLINE double curand_uniform_double(curandStateSobol32* state) { return emu::uniform_double(curand(state)); }
EMU_INLINE double curand_uniform_double(curandStateSobol64* state) {
    return double(curand(state) >> 11) * 0x1p-53 + 0x1p-54; }
EMU_INLINE float4 curand_uniform4(curandStatePhilox4_32_10* state) {
    uint4 x = curand4(state);
    return {emu::uniform(x.x), emu::uniform(x.y), emu::uniform(x.z), emu::uniform(x.w)};
}
EMU_INLINE double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
    uint4 x = curand4(state);
    return {emu::uniform_double(x.x, x.y), emu::uniform_double(x.z, x.w)};
}
template <class S> EMU_INLINE float2 curand_normal2(S* state) {
    unsigned x = curand(state);
    return emu::box_muller(x, curand(state));
}
EMU_INLINE float2 curand_normal2(curandStateMRG32k3a* state) {
    float u = curand_uniform(state);
    return emu::box_muller(u, curand_uniform(state) * 6.2831855f);
}
template <class S> EMU_INLINE double2 curand_normal2_double(S* state) {
    unsigned x = curand(state), y = curand(state), z = curand(state);
    return emu::box_muller(uint4{x, y, z, curand(state)});
}
EMU_INLINE double2 curand_normal2_double(curandStateMRG32k3a* state) {
    double u = curand_uniform_double(state);
    return emu::box_muller(u, curand_uniform_double(state) * 2.0);
}
EMU_INLINE float4 curand_normal4(curandStatePhilox4_32_10* state) {
    float2 a = curand_normal2(state), b = curand_normal2(state);
    return {a.x, a.y, b.x, b.y};
}
template <class S> EMU_INLINE float curand_normal(S* state) {
    if ((state->spare.has = !state->spare.has)) {
        float2 two = curand_normal2(state);
        return state->spare.number = two.y, two.x;
    }
    return state->spare.number;
}
template <class S> EMU_INLINE double curand_normal_double(S* state) {
    if ((state->spare.has_double = !state->spare.has_double)) {
        double2 two = curand_normal2_double(state);
        return state->spare.number_double = two.y, two.x;
    }
    return state->spare.number_double;
}
// By the inverse of the normal distribution, so that points of a Sobol sequence stay evenly spread.
template <class W> EMU_INLINE double emu_quantile(emu::Sobol<W>* state) {
    double p = (double(curand(static_cast<std::conditional_t<sizeof(W) == 4, curandStateSobol32,
        curandStateSobol64>*>(state))) + 0.5) / exp2(double(state->BITS));
    return normcdfinv(p);
}
EMU_INLINE float curand_normal(curandStateSobol32* state) { return float(emu_quantile(state)); }
EMU_INLINE float curand_normal(curandStateSobol64* state) { return float(emu_quantile(state)); }
EMU_INLINE double curand_normal_double(curandStateSobol32* state) { return emu_quantile(state); }
EMU_INLINE double curand_normal_double(curandStateSobol64* state) { return emu_quantile(state); }
template <class S> EMU_INLINE float curand_log_normal(S* state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state)); }
template <class S> EMU_INLINE double curand_log_normal_double(S* state, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state)); }
template <class S> EMU_INLINE unsigned curand_poisson(S* state, double lambda, EMU_HERE) {
    if (lambda > 4000) return unsigned(sqrt(lambda) * curand_normal_double(state) + lambda + 0.5);
    if (lambda >= 64) emu_no_body("curand_poisson with a mean from 64 to 4000", file, line);
    unsigned k = 0;
    float p = expf(float(lambda));
    do ++k, p *= curand_uniform(state);
    while (p > 1.0);
    return k - 1;
}

#ifdef EMU_PROGRAM  // brings the host's functions too
#include "curand.h"
#endif
