// Batch normalisation with what follows it: y = f(z w + b + skip), z = (x - mean) / sqrt(var + eps).
//
// x, skip, y, dskip, dy, dx: (n, channels, size); skip is the stored array of a Sum, dskip a Branch's second gradient,
// null without one. w, b, dw, db: (channels,), null without an affine map. Arrays are read in units of VEC numbers;
// units, per, chunks, width: as in channel_sums.cuh. FUNCTION: f, of activation.cuh.
// arch: sm_80, sm_90, sm_100
// instance: norm_moments<1, 4>; norm_forward<1, 4, 7, 1>; norm_forward<1, 4, 7, 2>; norm_forward<1, 1, 6, 0>
// instance: norm_forward<32, 1, 5, 0>; norm_forward<1, 4, 3, 0>
// instance: norm_sums<1, 4, 7>; norm_backward<1, 4, 7, 1>; norm_backward<1, 4, 7, 0>; norm_backward<1, 1, 6, 0>
// instance: norm_backward<32, 1, 5, 0>; norm_backward<1, 4, 3, 0>
#include "norm.cuh"

template <int ACROSS, int VEC>
__global__ void __launch_bounds__(1024, 1) norm_moments(const float* __restrict__ x, double* __restrict__ parts,
    unsigned units, unsigned per, unsigned chunks, unsigned width, int channels) {
    __shared__ double shared[WARP_SUMS<ACROSS>], totals[2 * ACROSS];
    const Units<ACROSS> mine(units, per, chunks, width, channels);
    double sum, squares;
    moments<ACROSS, VEC>(x, mine, first_number<ACROSS, VEC>(x, mine), sum, squares);
    add_in_block<ACROSS>(sum, squares, shared, totals);
    store_parts<ACROSS>(totals, parts);
}

// running_mean and running_var move by the share `momentum` towards the batch's mean and unbiased variance; for RUNNING
// they are the statistics. Bound by memory: x once from it and, where a block's share fits, once from L1.
template <int ACROSS, int VEC, int FUNCTION, int SOURCE>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) norm_forward(const float* __restrict__ x,
    const float* __restrict__ skip, float* __restrict__ y, const float* __restrict__ w, const float* __restrict__ b,
    float* __restrict__ running_mean, float* __restrict__ running_var, float* __restrict__ saved,
    const double* __restrict__ parts, unsigned units, unsigned per, unsigned chunks, unsigned width, int channels,
    double eps, double momentum, float slope) {
    const Units<ACROSS> mine(units, per, chunks, width, channels);
    const Map map = map_of<ACROSS, VEC, SOURCE>(x, mine, w, b, running_mean, running_var, saved, parts, units, chunks,
        eps, momentum);
    for (unsigned unit = mine.first; unit < mine.last; unit += AHEAD * mine.step) {
        float number[AHEAD * VEC], other[AHEAD * VEC];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) load_unit<VEC>(x, mine.at(unit + k * mine.step), number + k * VEC);
        if (skip != nullptr) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) load_unit<VEC>(skip, mine.at(unit + k * mine.step), other + k * VEC);
        }
#pragma unroll
        for (int k = 0; k < AHEAD * VEC; ++k) {
            const float v = map.mapped(map.difference(number[k]));
            number[k] = value<FUNCTION>(skip == nullptr ? v : v + other[k], slope);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) store_unit<VEC>(y, mine.at(unit + k * mine.step), number + k * VEC);
    }
}

// The numbers of BACK units that both passes backward read: differences x - mean, and the gradient of z w + b + skip.
// `kept`: dy is that gradient already.
template <int ACROSS, int VEC, int FUNCTION>
__device__ __forceinline__ void gradients(const float* __restrict__ x, const float* __restrict__ skip, const float* dy,
    const float* __restrict__ dskip, const Units<ACROSS>& units, unsigned unit, const Map& map, float slope, bool kept,
    float (&difference)[BACK * VEC], float (&g)[BACK * VEC]) {
    float stored[BACK * VEC], second[BACK * VEC];
    const bool reads_skip = FUNCTION != IDENTITY && skip != nullptr && !kept, reads_second = dskip != nullptr && !kept;
#pragma unroll
    for (int k = 0; k < BACK; ++k) {
        const long long at = units.at(unit + k * units.step);
        load_unit<VEC>(x, at, difference + k * VEC);
        load_unit<VEC>(dy, at, g + k * VEC);
        load_unit<VEC>(skip, reads_skip ? at : -1, stored + k * VEC);
        load_unit<VEC>(dskip, reads_second ? at : -1, second + k * VEC);
    }
#pragma unroll
    for (int k = 0; k < BACK * VEC; ++k) {
        difference[k] = map.difference(difference[k]);
        if (kept) continue;
        const float v = map.mapped(difference[k]);
        g[k] = through<FUNCTION>(reads_second ? g[k] + second[k] : g[k], reads_skip ? v + stored[k] : v, slope);
    }
}

// Sums of g z and of g over a block's numbers; with `keeps` dy becomes g.
template <int ACROSS, int VEC, int FUNCTION>
__device__ __forceinline__ void gradient_sums(const float* __restrict__ x, const float* __restrict__ skip, float* dy,
    const float* __restrict__ dskip, const Units<ACROSS>& units, const Map& map, float slope, bool keeps,
    double& products, double& total) {
    products = total = 0.0;
    for (unsigned unit = units.first; unit < units.last; unit += BACK * units.step) {
        float difference[BACK * VEC], g[BACK * VEC], product = 0.0f, sum = 0.0f;
        gradients<ACROSS, VEC, FUNCTION>(x, skip, dy, dskip, units, unit, map, slope, false, difference, g);
#pragma unroll
        for (int k = 0; k < BACK; ++k) {
            if (keeps) store_unit<VEC>(dy, units.at(unit + k * units.step), g + k * VEC);
        }
#pragma unroll
        for (int k = 0; k < BACK * VEC; ++k) {
            const float gradient = unit + k / VEC * units.step < units.last ? g[k] : 0.0f;
            product = fmaf(gradient, difference[k] * map.factor, product);
            sum += gradient;
        }
        products += product;
        total += sum;
    }
}

template <int ACROSS, int VEC, int FUNCTION>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) norm_sums(const float* __restrict__ x,
    const float* __restrict__ skip, float* dy, const float* __restrict__ dskip, const float* __restrict__ saved,
    double* __restrict__ parts, unsigned units, unsigned per, unsigned chunks, unsigned width, int channels,
    float slope, int keeps) {
    __shared__ double shared[WARP_SUMS<ACROSS>], totals[2 * ACROSS];
    const Units<ACROSS> mine(units, per, chunks, width, channels);
    double products, total;
    gradient_sums<ACROSS, VEC, FUNCTION>(x, skip, dy, dskip, mine, saved_map<ACROSS>(saved, mine), slope, keeps != 0,
        products, total);
    add_in_block<ACROSS>(products, total, shared, totals);
    store_parts<ACROSS>(totals, parts);
}

// dx = w factor (g - mean of g - z mean of g z), null where no layer before it is trained; dw = sum of g z, db = sum of
// g; and the update of w and b. keeps: dy becomes g, the gradient of both summands of a Sum.
template <int ACROSS, int VEC, int FUNCTION, int SOURCE>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) norm_backward(const float* __restrict__ x,
    const float* __restrict__ skip, float* dy, const float* __restrict__ dskip, const float* __restrict__ saved,
    const double* __restrict__ parts, float* __restrict__ dx, float* dw, float* db, unsigned units, unsigned per,
    unsigned chunks, unsigned width, int channels, float slope, int keeps, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit) {
    __shared__ double shared[WARP_SUMS<ACROSS>], totals[2 * ACROSS];
    const Units<ACROSS> mine(units, per, chunks, width, channels);
    const Map map = saved_map<ACROSS>(saved, mine);
    if constexpr (SOURCE == PARTS) {
        add_parts<ACROSS>(parts, chunks, totals);
    } else {
        double products, total;
        gradient_sums<ACROSS, VEC, FUNCTION>(x, skip, dy, dskip, mine, map, slope, keeps != 0, products, total);
        add_in_block<ACROSS>(products, total, shared, totals);
    }
    finish_parameters<ACROSS>(totals, mine, dw, db, blockIdx.x % chunks == 0,
        {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit});
    if (dx == nullptr) return;
    const double count = static_cast<double>(units) * VEC;
    const float product = static_cast<float>(totals[threadIdx.x % ACROSS] / count),
        middle = static_cast<float>(totals[ACROSS + threadIdx.x % ACROSS] / count);
    for (unsigned unit = mine.first; unit < mine.last; unit += BACK * mine.step) {
        float difference[BACK * VEC], g[BACK * VEC];
        gradients<ACROSS, VEC, FUNCTION>(x, skip, dy, dskip, mine, unit, map, slope, keeps != 0, difference, g);
#pragma unroll
        for (int k = 0; k < BACK * VEC; ++k) {
            g[k] = map.scale * (g[k] - middle - difference[k] * map.factor * product);
        }
#pragma unroll
        for (int k = 0; k < BACK; ++k) store_unit<VEC>(dx, mine.at(unit + k * mine.step), g + k * VEC);
    }
}
