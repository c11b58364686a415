// Sums of a rectangle of written pixels on their way out: scaled, with bias, ReLU, pool and mask.
#pragma once
#include "implicit.cuh"

// First written pixel of a rectangle.
struct Corner {
    int image, row, column;
};

// Sums in shared memory of BN outputs: for each, OUT_ROWS x OUT_COLUMNS pixels of IMAGES images (n, O, OH, OW), at
// PITCH floats from output to output. DEEP such sums, one after the other, are added up.
template <bool POOL, int O, int OH, int OW, int IMAGES, int OUT_ROWS, int OUT_COLUMNS, int BN, int DEEP, int THREADS>
struct RectangleOut {
    static constexpr int PIXELS = IMAGES * OUT_ROWS * OUT_COLUMNS, PITCH = over(PIXELS, 16) * 16 + 4;
    const float* sums;
    // of each output: what inverts the scale of its weights, and then its bias
    const float* ends;
    // null, or y is 0 where it is not above 0
    const float* relu_mask;
    int n, has_relu;

    __device__ __forceinline__ static float whole(const float* from) {
        float sum = from[0];
#pragma unroll
        for (int d = 1; d < DEEP; ++d) sum += from[d * BN * PITCH];
        return sum;
    }

    // Writes outputs o0 on of the rectangle from pixel `first` on to y, or of its pool's windows to y and argmax, in
    // the order of memory; V numbers at a time, and PER times that are on their way together.
    __device__ __forceinline__ void write(float* y, unsigned char* argmax, const Corner& first, int o0) const {
        constexpr int UNIT = POOL ? 2 : 1, LINES = OUT_ROWS / UNIT, LINE = OUT_COLUMNS / UNIT, Y_ROWS = OH / UNIT,
            Y_COLUMNS = OW / UNIT, V = !POOL && LINE % 4 == 0 && Y_COLUMNS % 4 == 0 ? 4 : 1, PER = V == 4 ? 4 : 8,
            EVERY = IMAGES * LINES * LINE / V;
        const bool wide = V == 4 && (reinterpret_cast<size_t>(y) | reinterpret_cast<size_t>(relu_mask)) % 16 == 0;
        const long long skipped = static_cast<long long>(first.image) * (O * Y_ROWS * Y_COLUMNS);
        const float* mask = relu_mask;
        y += skipped;
        if (POOL && argmax != nullptr) argmax += skipped;
        if (mask != nullptr) mask += skipped;
#pragma unroll 1
        for (int start = threadIdx.x; start < BN * EVERY; start += THREADS * PER) {
            int target[PER];
            float4 under[PER];
#pragma unroll
            for (int e = 0; e < PER; ++e) {
                const int i = start + e * THREADS, output = i / EVERY, at = i % EVERY * V, image = at / (LINES * LINE),
                    y_row = first.row / UNIT + at / LINE % LINES, y_column = first.column / UNIT + at % LINE;
                const bool there = i < BN * EVERY && o0 + output < O && first.image + image < n && y_row < Y_ROWS
                    && y_column < Y_COLUMNS;
                target[e] = there ? ((image * O + o0 + output) * Y_ROWS + y_row) * Y_COLUMNS + y_column : -1;
            }
            if (mask != nullptr)
#pragma unroll
                for (int e = 0; e < PER; ++e) under[e] = load_four(mask + max(target[e], 0), V, wide);
#pragma unroll
            for (int e = 0; e < PER; ++e) {
                if (target[e] < 0) continue;
                const int i = start + e * THREADS, output = i / EVERY, at = i % EVERY * V, image = at / (LINES * LINE),
                    row = at / LINE % LINES, column = at % LINE;
                const float* from = sums + output * PITCH + (image * OUT_ROWS + row * UNIT) * OUT_COLUMNS
                    + column * UNIT;
                const float scale = ends[output], add = ends[BN + output];
                if constexpr (POOL) {
                    const float four[4] = {fmaf(whole(from), scale, add), fmaf(whole(from + 1), scale, add),
                        fmaf(whole(from + OUT_COLUMNS), scale, add), fmaf(whole(from + OUT_COLUMNS + 1), scale, add)};
                    store_best(best_of(four), y, argmax, target[e]);
                } else {
                    const auto finish = [&](float sum, float kept) {
                        const float value = fmaf(sum, scale, add);
                        return (has_relu && value < 0.0f) || (mask != nullptr && !(kept > 0.0f)) ? 0.0f : value;
                    };  // NaN passes
                    if constexpr (V == 4) {
                        float4 four = *reinterpret_cast<const float4*>(from);
#pragma unroll
                        for (int d = 1; d < DEEP; ++d)
                            four = four + *reinterpret_cast<const float4*>(from + d * BN * PITCH);
                        store_four(y + target[e], make_float4(finish(four.x, under[e].x), finish(four.y, under[e].y),
                            finish(four.z, under[e].z), finish(four.w, under[e].w)), V, wide);
                    } else {
                        y[target[e]] = finish(whole(from), under[e].x);
                    }
                }
            }
        }
    }
};
