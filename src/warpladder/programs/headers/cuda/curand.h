// cuRAND's host API: arrays of random numbers by XORWOW, Philox and MRG32k3a. The numbers are those of the generators;
// their order in an array is one sequence, in blocks of 4,096 sequences for XORWOW and MRG32k3a as cuRAND documents.
#pragma once
#include "../library.h"
#include "../refused.h"
#include "curand_kernel.h"

#define CURAND_H_ 1
enum curandStatus {
    CURAND_STATUS_SUCCESS, CURAND_STATUS_VERSION_MISMATCH = 100, CURAND_STATUS_NOT_INITIALIZED,
    CURAND_STATUS_ALLOCATION_FAILED, CURAND_STATUS_TYPE_ERROR, CURAND_STATUS_OUT_OF_RANGE,
    CURAND_STATUS_LENGTH_NOT_MULTIPLE, CURAND_STATUS_DOUBLE_PRECISION_REQUIRED, CURAND_STATUS_LAUNCH_FAILURE = 201,
    CURAND_STATUS_PREEXISTING_FAILURE, CURAND_STATUS_INITIALIZATION_FAILED, CURAND_STATUS_ARCH_MISMATCH,
    CURAND_STATUS_INTERNAL_ERROR = 999
};
using curandStatus_t = curandStatus;
enum curandRngType {
    CURAND_RNG_PSEUDO_DEFAULT = 100, CURAND_RNG_PSEUDO_XORWOW = 101, CURAND_RNG_PSEUDO_MRG32K3A = 121,
    CURAND_RNG_PSEUDO_MTGP32 = 141, CURAND_RNG_PSEUDO_MT19937, CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
    CURAND_RNG_QUASI_DEFAULT = 200, CURAND_RNG_QUASI_SOBOL32, CURAND_RNG_QUASI_SCRAMBLED_SOBOL32,
    CURAND_RNG_QUASI_SOBOL64, CURAND_RNG_QUASI_SCRAMBLED_SOBOL64
};
using curandRngType_t = curandRngType;
enum curandOrdering {
    CURAND_ORDERING_PSEUDO_BEST = 100, CURAND_ORDERING_PSEUDO_DEFAULT, CURAND_ORDERING_PSEUDO_SEEDED,
    CURAND_ORDERING_PSEUDO_LEGACY, CURAND_ORDERING_PSEUDO_DYNAMIC,
    CURAND_ORDERING_QUASI_DEFAULT = 201
};
using curandOrdering_t = curandOrdering;

struct curandGenerator_st {
    curandRngType type;
    bool of_host;
    unsigned long long seed = 0, offset = 0;
    unsigned dimensions = 1;
    cudaStream_t stream = 0;
};
using curandGenerator_t = curandGenerator_st*;

inline const char* emu_generator_name(curandRngType type) {
    switch (type) {
        case CURAND_RNG_PSEUDO_MTGP32: return "CURAND_RNG_PSEUDO_MTGP32";
        case CURAND_RNG_PSEUDO_MT19937: return "CURAND_RNG_PSEUDO_MT19937";
        case CURAND_RNG_QUASI_SOBOL32: return "CURAND_RNG_QUASI_SOBOL32";
        case CURAND_RNG_QUASI_SCRAMBLED_SOBOL32: return "CURAND_RNG_QUASI_SCRAMBLED_SOBOL32";
        case CURAND_RNG_QUASI_SOBOL64: return "CURAND_RNG_QUASI_SOBOL64";
        case CURAND_RNG_QUASI_SCRAMBLED_SOBOL64: return "CURAND_RNG_QUASI_SCRAMBLED_SOBOL64";
        default: return "this generator";
    }
}
[[gnu::noinline]] inline curandStatus emu_generator(curandGenerator_t* out, curandRngType type, bool of_host) {
    if (type == CURAND_RNG_PSEUDO_DEFAULT) type = CURAND_RNG_PSEUDO_XORWOW;
    if (type == CURAND_RNG_QUASI_DEFAULT) type = CURAND_RNG_QUASI_SOBOL32;
    if (type != CURAND_RNG_PSEUDO_XORWOW && type != CURAND_RNG_PSEUDO_MRG32K3A
        && type != CURAND_RNG_PSEUDO_PHILOX4_32_10 && type != CURAND_RNG_QUASI_SOBOL32
        && type != CURAND_RNG_QUASI_SOBOL64)
        emu_refuse(emu_generator_name(type), "cuRAND's other generators", __builtin_return_address(0));
    return *out = new curandGenerator_st{type, of_host}, CURAND_STATUS_SUCCESS;
}
inline curandStatus curandCreateGenerator(curandGenerator_t* g, curandRngType type) {
    return emu_generator(g, type, false); }
inline curandStatus curandCreateGeneratorHost(curandGenerator_t* g, curandRngType type) {
    return emu_generator(g, type, true); }
inline curandStatus curandDestroyGenerator(curandGenerator_t g) { return delete g, CURAND_STATUS_SUCCESS; }
inline curandStatus curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
    return g->seed = seed, g->offset = 0, CURAND_STATUS_SUCCESS; }
inline curandStatus curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
    return g->offset = offset, CURAND_STATUS_SUCCESS; }
inline curandStatus curandSetGeneratorOrdering(curandGenerator_t, curandOrdering) { return CURAND_STATUS_SUCCESS; }
[[gnu::noinline]] inline curandStatus curandSetQuasiRandomGeneratorDimensions(curandGenerator_t g, unsigned n) {
    if (g->type < CURAND_RNG_QUASI_DEFAULT) return CURAND_STATUS_TYPE_ERROR;
    if (n < 1 || n > 20000) return CURAND_STATUS_OUT_OF_RANGE;
    if (n > emu::SOBOL_DIMENSIONS) emu_refuse("a Sobol sequence of more than 20 dimensions", "cuRAND",
        __builtin_return_address(0));
    return g->dimensions = n, CURAND_STATUS_SUCCESS;
}
enum curandDirectionVectorSet {
    CURAND_DIRECTION_VECTORS_32_JOEKUO6 = 101, CURAND_DIRECTION_VECTORS_64_JOEKUO6 = 103
};
using curandDirectionVectorSet_t = curandDirectionVectorSet;
template <class V> curandStatus emu_directions(V** out) {
    static V all[emu::SOBOL_DIMENSIONS];
    for (unsigned d = 0; d < emu::SOBOL_DIMENSIONS; ++d) emu::directions(d, all[d]);
    return *out = all, CURAND_STATUS_SUCCESS;
}
inline curandStatus curandGetDirectionVectors32(curandDirectionVectors32_t** out, curandDirectionVectorSet) {
    return emu_directions(out); }
inline curandStatus curandGetDirectionVectors64(curandDirectionVectors64_t** out, curandDirectionVectorSet) {
    return emu_directions(out); }
inline curandStatus curandSetStream(curandGenerator_t g, cudaStream_t stream) {
    return g->stream = stream, CURAND_STATUS_SUCCESS; }
inline curandStatus curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }

namespace emu {

// `draws` words of the generator for each number; f makes a number of its state.
template <class T, class F> curandStatus filled(curandGenerator_t g, const char* name, T* out, size_t count, F f,
    const char* file, int line) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    const unsigned long long seed = g->seed, begun = g->offset;
    const curandRngType type = g->type;
    auto sequence = [=]<class S>(S* state, size_t which, size_t sequences) {
        curand_init(seed, which, begun / sequences, state);
        for (size_t i = which; i < count; i += sequences) out[i] = f(state);
    };
    const size_t part = count / g->dimensions;
    if (count % g->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    auto quasi = [=]<class S, class W>(S* state, W* directions, size_t dimension) {
        emu::directions(unsigned(dimension), directions);
        curand_init(directions, begun / (count / part), state);
        for (size_t i = 0; i < part; ++i) out[dimension * part + i] = f(state);
    };
    const size_t dimensions = g->dimensions;
    auto work = [=](size_t which) {
        if (type >= CURAND_RNG_QUASI_DEFAULT && which >= dimensions) return;
        if (type == CURAND_RNG_QUASI_SOBOL32) {
            curandStateSobol32 s;
            curandDirectionVectors32_t v;
            quasi(&s, v, which);
        } else if (type == CURAND_RNG_QUASI_SOBOL64) {
            curandStateSobol64 s;
            curandDirectionVectors64_t v;
            quasi(&s, v, which);
        } else if (type == CURAND_RNG_PSEUDO_XORWOW) { curandStateXORWOW s; sequence(&s, which, 4096); }
        else if (type == CURAND_RNG_PSEUDO_MRG32K3A) { curandStateMRG32k3a s; sequence(&s, which, 4096); }
        else if (which == 0) { curandStatePhilox4_32_10 s; sequence(&s, 0, 1); }
    };
    g->offset += count;
    if (g->of_host) {
        for (size_t i = 0; i < 4096; ++i) work(i);
        return CURAND_STATUS_SUCCESS;
    }
    deduced([](auto& body) { body(size_t(blockIdx.x) * blockDim.x + threadIdx.x); }, name, 0,
        Config(32, 128, 0, g->stream, file, line), work);
    return cudaPeekAtLastError() == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
}

}  // namespace emu

inline curandStatus curandGenerate(curandGenerator_t g, unsigned* out, size_t n, EMU_HERE) {
    return emu::filled(g, "curandGenerate", out, n, [](auto* s) { return curand(s); }, file, line); }
inline curandStatus curandGenerateUniform(curandGenerator_t g, float* out, size_t n, EMU_HERE) {
    return emu::filled(g, "curandGenerateUniform", out, n, [](auto* s) { return curand_uniform(s); }, file, line); }
inline curandStatus curandGenerateUniformDouble(curandGenerator_t g, double* out, size_t n, EMU_HERE) {
    return emu::filled(g, "curandGenerateUniformDouble", out, n, [](auto* s) { return curand_uniform_double(s); }, file,
        line); }
// cuRAND makes normal numbers in pairs.
inline curandStatus curandGenerateNormal(curandGenerator_t g, float* out, size_t n, float mean, float deviation,
    EMU_HERE) {
    if (n % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    return emu::filled(g, "curandGenerateNormal", out, n, [=](auto* s) { return mean + deviation * curand_normal(s); },
        file, line);
}
inline curandStatus curandGenerateNormalDouble(curandGenerator_t g, double* out, size_t n, double mean,
    double deviation, EMU_HERE) {
    if (n % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    return emu::filled(g, "curandGenerateNormalDouble", out, n, [=](auto* s) {
        return mean + deviation * curand_normal_double(s); }, file, line);
}
inline curandStatus curandGenerateLogNormal(curandGenerator_t g, float* out, size_t n, float mean, float deviation,
    EMU_HERE) {
    if (n % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    return emu::filled(g, "curandGenerateLogNormal", out, n, [=](auto* s) {
        return curand_log_normal(s, mean, deviation); }, file, line);
}
inline curandStatus curandGeneratePoisson(curandGenerator_t g, unsigned* out, size_t n, double mean, EMU_HERE) {
    if (g && g->type >= CURAND_RNG_QUASI_DEFAULT)
        emu_refuse("curandGeneratePoisson of a Sobol sequence", "cuRAND", __builtin_return_address(0));
    return emu::filled(g, "curandGeneratePoisson", out, n, [=](auto* s) { return curand_poisson(s, mean); }, file,
        line); }
