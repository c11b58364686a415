// cuFFT: transforms of one, two and three axes, in double inside. An axis whose length is a power of two takes
// n log n steps, another n^2.
#pragma once
#include <complex>

#include "../library.h"
#include "cuComplex.h"

#define _CUFFT_H_ 1
#define CUFFT_H_ 1
enum cufftResult {
    CUFFT_SUCCESS, CUFFT_INVALID_PLAN, CUFFT_ALLOC_FAILED, CUFFT_INVALID_TYPE, CUFFT_INVALID_VALUE,
    CUFFT_INTERNAL_ERROR, CUFFT_EXEC_FAILED, CUFFT_SETUP_FAILED, CUFFT_INVALID_SIZE, CUFFT_UNALIGNED_DATA,
    CUFFT_INCOMPLETE_PARAMETER_LIST, CUFFT_INVALID_DEVICE, CUFFT_PARSE_ERROR, CUFFT_NO_WORKSPACE, CUFFT_NOT_IMPLEMENTED,
    CUFFT_LICENSE_ERROR, CUFFT_NOT_SUPPORTED, CUFFT_MISSING_DEPENDENCY, CUFFT_NVRTC_FAILURE, CUFFT_NVJITLINK_FAILURE,
    CUFFT_NVSHMEM_FAILURE
};
enum cufftType {
    CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29, CUFFT_D2Z = 0x6a, CUFFT_Z2D = 0x6c, CUFFT_Z2Z = 0x69 };
using cufftReal = float;
using cufftDoubleReal = double;
using cufftComplex = float2;
using cufftDoubleComplex = double2;
constexpr int CUFFT_FORWARD = -1, CUFFT_INVERSE = 1;

namespace emu::fft {

struct Plan {
    int sizes[3] = {1, 1, 1};  // the last axis is contiguous
    int batch = 1;
    cufftType type = CUFFT_C2C;
    cudaStream_t stream = 0;
    size_t last() const { return size_t(sizes[2]); }
    size_t all() const { return size_t(sizes[0]) * size_t(sizes[1]) * last(); }
};
inline auto& all_plans = *new std::vector<Plan*>;
inline auto& plans() {
    return all_plans;
}
inline Plan* plan(int number) {
    return number > 0 && size_t(number) <= plans().size() ? plans()[size_t(number) - 1] : nullptr; }

// Threads of a launch, one for each i below n.
template <class F> void each(const Plan& p, const char* name, size_t n, F body, const char* file, int line) {
    deduced([](auto& f, size_t most) {
        size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
        if (i < most) f(i);
    }, name, 0, Config(unsigned((n + 127) / 128), 128, 0, p.stream, file, line), body, n);
}

// One axis of n numbers in place, `step` apart; spare: as many numbers.
inline void axis(double2* x, double2* spare, size_t n, size_t step, int sign) {
    using C = std::complex<double>;
    auto* out = reinterpret_cast<C*>(spare);
    auto* in = reinterpret_cast<C*>(x);
    auto root = [=](size_t k, size_t of) { return std::polar(1.0, sign * 2 * M_PI * double(k % of) / double(of)); };
    if (n & (n - 1)) {
        for (size_t k = 0; k < n; ++k) {
            C sum = 0;
            for (size_t i = 0; i < n; ++i) sum += in[i * step] * root(i * k % n, n);
            out[k] = sum;
        }
    } else {
        for (size_t i = 0; i < n; ++i) {
            size_t to = 0;
            for (size_t bit = 1; bit < n; bit *= 2) to = to * 2 + (i & bit ? 1 : 0);
            out[to] = in[i * step];
        }
        for (size_t half = 1; half < n; half *= 2)
            for (size_t k = 0; k < half; ++k) {
                const C w = root(k, 2 * half);
                for (size_t i = k; i < n; i += 2 * half) {
                    C a = out[i], b = out[i + half] * w;
                    out[i] = a + b, out[i + half] = a - b;
                }
            }
    }
    for (size_t i = 0; i < n; ++i) in[i * step] = out[i];
}

// From `in` to `out`, both of which may be real; a real side has half as many numbers, and one more, on the last axis.
template <class I, class O> cufftResult run(int number, const I* in, O* out, int sign, const char* file, int line) {
    const Plan* found = plan(number);
    if (!found) return CUFFT_INVALID_PLAN;
    const Plan p = *found;
    constexpr bool real_in = std::is_floating_point_v<I>, real_out = std::is_floating_point_v<O>;
    const size_t all = p.all(), n = all * size_t(p.batch), last = p.last(), half = last / 2 + 1;
    Temporary<double2> work(n, file, line), spare(n, file, line);
    double2 *w = work.data, *s = spare.data;
    each(p, "cufftExec", n, [=](size_t i) {
        size_t x = i % last, row = i / last;
        if constexpr (real_in) w[i] = {double(in[i]), 0};
        else if constexpr (!real_out) w[i] = {double(in[i].x), double(in[i].y)};
        else if (x < half) w[i] = {double(in[row * half + x].x), double(in[row * half + x].y)};
        else {  // the other half is the mirrored one's conjugate, on every axis
            size_t y = row % p.sizes[1], z = row / p.sizes[1] % p.sizes[0], which = row / p.sizes[1] / p.sizes[0];
            size_t my = (p.sizes[1] - y) % p.sizes[1], mz = (p.sizes[0] - z) % p.sizes[0];
            const I& from = in[((which * p.sizes[0] + mz) * p.sizes[1] + my) * half + last - x];
            w[i] = {double(from.x), -double(from.y)};
        }
    }, file, line);
    size_t step = 1;
    for (int a = 2; a >= 0; step *= size_t(p.sizes[a--])) {
        const size_t length = size_t(p.sizes[a]), by = step;
        if (length == 1) continue;
        each(p, "cufftExec", n / length, [=](size_t i) {
            axis(w + i / by * by * length + i % by, s + i * length, length, by, sign); }, file, line);
    }
    each(p, "cufftExec", n, [=](size_t i) {
        size_t x = i % last, row = i / last;
        if constexpr (real_out) out[i] = O(w[i].x);
        else if constexpr (!real_in) out[i] = {decltype(O::x)(w[i].x), decltype(O::x)(w[i].y)};
        else if (x < half) out[row * half + x] = {decltype(O::x)(w[i].x), decltype(O::x)(w[i].y)};
    }, file, line);
    return cudaPeekAtLastError() == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

inline cufftResult made(int* number, int z, int y, int x, cufftType type, int batch) {
    if (z < 1 || y < 1 || x < 1 || batch < 1) return CUFFT_INVALID_SIZE;
    plans().push_back(new Plan{{z, y, x}, batch, type});
    return *number = int(plans().size()), CUFFT_SUCCESS;
}

}  // namespace emu::fft

using cufftHandle = int;
inline cufftResult cufftPlan1d(cufftHandle* plan, int n, cufftType type, int batch) {
    return emu::fft::made(plan, 1, 1, n, type, batch); }
inline cufftResult cufftPlan2d(cufftHandle* plan, int y, int x, cufftType type) {
    return emu::fft::made(plan, 1, y, x, type, 1); }
inline cufftResult cufftPlan3d(cufftHandle* plan, int z, int y, int x, cufftType type) {
    return emu::fft::made(plan, z, y, x, type, 1); }
// Contiguous transforms, one after the other; other layouts are not supported.
inline cufftResult cufftPlanMany(cufftHandle* plan, int rank, const int* n, const int* in, int in_step, int,
    const int* out, int out_step, int, cufftType type, int batch) {
    if (rank < 1 || rank > 3) return CUFFT_INVALID_SIZE;
    if ((in && in_step != 1) || (out && out_step != 1)) return CUFFT_NOT_SUPPORTED;
    return emu::fft::made(plan, rank > 2 ? n[0] : 1, rank > 1 ? n[rank - 2] : 1, n[rank - 1], type, batch);
}
inline cufftResult cufftCreate(cufftHandle* plan) { return emu::fft::made(plan, 1, 1, 1, CUFFT_C2C, 1); }
inline cufftResult emu_fft_remade(cufftHandle plan, int z, int y, int x, cufftType type, int batch, size_t* bytes) {
    emu::fft::Plan* p = emu::fft::plan(plan);
    if (!p) return CUFFT_INVALID_PLAN;
    *p = {{z, y, x}, batch, type, p->stream};
    return *bytes = 32 * p->all() * size_t(batch), CUFFT_SUCCESS;
}
inline cufftResult cufftMakePlan1d(cufftHandle plan, int n, cufftType type, int batch, size_t* bytes) {
    return emu_fft_remade(plan, 1, 1, n, type, batch, bytes); }
inline cufftResult cufftMakePlan2d(cufftHandle plan, int y, int x, cufftType type, size_t* bytes) {
    return emu_fft_remade(plan, 1, y, x, type, 1, bytes); }
inline cufftResult cufftMakePlan3d(cufftHandle plan, int z, int y, int x, cufftType type, size_t* bytes) {
    return emu_fft_remade(plan, z, y, x, type, 1, bytes); }
inline cufftResult cufftMakePlanMany(cufftHandle plan, int rank, const int* n, const int* in, int in_step, int,
    const int* out, int out_step, int, cufftType type, int batch, size_t* bytes) {
    if (rank < 1 || rank > 3) return CUFFT_INVALID_SIZE;
    if ((in && in_step != 1) || (out && out_step != 1)) return CUFFT_NOT_SUPPORTED;
    return emu_fft_remade(plan, rank > 2 ? n[0] : 1, rank > 1 ? n[rank - 2] : 1, n[rank - 1], type, batch, bytes);
}
inline cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, const long long* n, const long long* in,
    long long in_step, long long, cudaDataType from, const long long* out, long long out_step, long long,
    cudaDataType to, long long batch, size_t* bytes, cudaDataType execution) {
    if (rank < 1 || rank > 3) return CUFFT_INVALID_SIZE;
    const bool is_double = execution == CUDA_C_64F;
    const cudaDataType real = is_double ? CUDA_R_64F : CUDA_R_32F, pair = is_double ? CUDA_C_64F : CUDA_C_32F;
    if ((execution != CUDA_C_32F && !is_double) || (from != pair && to != pair)) return CUFFT_NOT_SUPPORTED;
    if ((from != pair && from != real) || (to != pair && to != real)) return CUFFT_NOT_SUPPORTED;
    const cufftType type = from == to ? is_double ? CUFFT_Z2Z : CUFFT_C2C
        : from == real ? is_double ? CUFFT_D2Z : CUFFT_R2C : is_double ? CUFFT_Z2D : CUFFT_C2R;
    int sizes[3]{};
    for (int i = 0; i < rank; ++i) sizes[i] = int(n[i]);
    static const int strided = 1;
    return cufftMakePlanMany(plan, rank, sizes, in ? &strided : nullptr, int(in_step), 0, out ? &strided : nullptr,
        int(out_step), 0, type, int(batch), bytes);
}
inline cufftResult cufftDestroy(cufftHandle plan) { return emu::fft::plan(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN; }
inline cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream) {
    emu::fft::Plan* p = emu::fft::plan(plan);
    if (p) p->stream = stream;
    return p ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftSetAutoAllocation(cufftHandle, int) { return CUFFT_SUCCESS; }
inline cufftResult cufftExecC2C(cufftHandle plan, float2* in, float2* out, int sign, EMU_HERE) {
    return emu::fft::run(plan, in, out, sign, file, line); }
inline cufftResult cufftExecZ2Z(cufftHandle plan, double2* in, double2* out, int sign, EMU_HERE) {
    return emu::fft::run(plan, in, out, sign, file, line); }
inline cufftResult cufftExecR2C(cufftHandle plan, float* in, float2* out, EMU_HERE) {
    return emu::fft::run(plan, in, out, CUFFT_FORWARD, file, line); }
inline cufftResult cufftExecD2Z(cufftHandle plan, double* in, double2* out, EMU_HERE) {
    return emu::fft::run(plan, in, out, CUFFT_FORWARD, file, line); }
inline cufftResult cufftExecC2R(cufftHandle plan, float2* in, float* out, EMU_HERE) {
    return emu::fft::run(plan, in, out, CUFFT_INVERSE, file, line); }
inline cufftResult cufftExecZ2D(cufftHandle plan, double2* in, double* out, EMU_HERE) {
    return emu::fft::run(plan, in, out, CUFFT_INVERSE, file, line); }
