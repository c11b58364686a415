// Convolutions on tensor cores: y[o, pixel] = sum over (channel, tap) of w[o, (channel, tap)] x[channel, pixel + tap].
//
// A stage is 32 channels of a tile's halo. Each pixel is read, scaled and split once, and then multiplied by the panels
// of all taps in turn: 32 or 64 outputs by 32 terms, scaled and split by pack.cu. Sums leave the tensor cores every 32
// terms. Formats, scales: tensor_panels.cuh, mma.cuh. Launched by launches.py.
// arch: sm_80, sm_90, sm_100
// instance: convolve<SPLIT, 64, false>; convolve<BF16, 64, false>
// instance: convolve<SPLIT, 16, true>
#include "async.cuh"
#include "block.cuh"
#include "pooled.cuh"

// x: (n, c, h, w), the input image. y: (n, o, oh, ow), the output image; after a pool (n, o, oh / 2, ow / 2), and
// argmax as y. relu_mask: null, or as y: y is 0 where relu_mask is not above 0. k, stride, padding, direction: as in
// gemm_patches.cuh. packed: (classes, tiles of BN outputs, class_panels) panels of pack.cu. FEW: terms are (channel,
// tap), 32 a stage, without a halo. A block has `images` x `rows` x `columns` pixels, at most PIXELS, and BN outputs; a
// warp 32 pixels. A stage has a box of tap_rows x tap_columns taps: whole rows of taps or part of one. x counts tiles
// of outputs first, then classes, then tiles of pixels; y parts of `depth` stages. PARTS: y is (parts, classes,
// outputs, part_pitch), outputs times phases if MERGED.
// local memory: convolve: with 64 outputs
// up to ten words that a block reads once in a stage are spilled, no sums; the third block is worth it
template <int FORMAT, int BN, bool FEW>
__global__ void __launch_bounds__(32 * WARPS, 3) convolve(
    const float* __restrict__ x, const uint4* __restrict__ packed, const float* __restrict__ bias,
    const float* __restrict__ relu_mask, float* __restrict__ y, unsigned char* __restrict__ argmax, int n, int c, int h,
    int w, int o, int oh, int ow, int k, int stride, int padding, int direction, int images, int rows, int columns,
    int tap_rows, int tap_columns, int class_panels, int depth, int part_pitch, int after
) {
    using Tile = Rows<FORMAT, DEPTH, EVERY_FOURTH>;
    using Panel = Rows<FORMAT, DEPTH, NEIGHBOURS>;
    constexpr int ROUNDS = FEW ? 1 : 3;         // of loads of a thread that are under way together
    // times eight outputs whose products do not wait for one another; with 64 there are no registers for two
    constexpr int TOGETHER = BN == 64 ? 1 : 2;
    constexpr int COPIES = Tile::COPIES, TERMS = Held<FORMAT>::TERMS, STEPS = DEPTH / TERMS;
    constexpr int PANEL = COPIES * BN * Panel::CHUNKS + (SCALED<FORMAT> ? BN / 4 : 0);  // in units of 16 bytes
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const bool windows = after == POOL || after == POOLED_PARTS, parts = after >= PARTS;

    // The tile: outputs, class, images, rows and columns. In shared memory, because the products need all registers.
    const int outputs = direction == MERGED ? stride * stride * o : o, tiles_n = (outputs + BN - 1) / BN,
        classes = direction == TRANSPOSED ? stride * stride : 1;
    __shared__ Where at_block;
    if (threadIdx.x == 0) {
        Where& to = at_block;
        to.o0 = blockIdx.x % tiles_n * BN, to.phase = blockIdx.x / tiles_n % classes;
        to.down = forward_axis(oh, k, stride, padding), to.along = forward_axis(ow, k, stride, padding);
        int high = windows ? oh / 2 * 2 : oh, wide = windows ? ow / 2 * 2 : ow;  // pixels of the largest class
        if (direction == TRANSPOSED)
            to.down = transposed_axis(oh, k, stride, padding, to.phase / stride),
                to.along = transposed_axis(ow, k, stride, padding, to.phase % stride);
        if (direction == MERGED)
            to.down = merged_axis(oh, k, stride, padding), to.along = merged_axis(ow, k, stride, padding);
        if (direction != FORWARD) high = (oh + stride - 1) / stride, wide = (ow + stride - 1) / stride;
        const int number = blockIdx.x / tiles_n / classes, across = (wide + columns - 1) / columns,
            lines = (high + rows - 1) / rows;
        to.column0 = number % across * columns, to.row0 = number / across % lines * rows,
            to.image0 = number / across / lines * images;
        to.high = windows ? high : to.down.count, to.wide = windows ? wide : to.along.count;
    }
    __syncthreads();
    const Axis &down = at_block.down, &along = at_block.along;
    const int &high = at_block.high, &wide = at_block.wide, &row0 = at_block.row0, &column0 = at_block.column0,
        &image0 = at_block.image0;
    if (row0 >= high || column0 >= wide) return;  // of a smaller class

    const int taps = down.taps * along.taps;
    const TilePixels tile = FEW ? TilePixels{images, rows, columns, 1, 1, 1, 1}
                                : TilePixels{images, rows, columns, min(tap_rows, down.taps),
                                    min(tap_columns, along.taps), down.stride, along.stride};
    const int box_columns = FEW ? 1 : (along.taps + tap_columns - 1) / tap_columns, boxes = FEW ? 1
        : (down.taps + tap_rows - 1) / tap_rows * box_columns;
    const int stages = taps == 0 ? 0 : FEW ? (c * taps + DEPTH - 1) / DEPTH : (c + DEPTH - 1) / DEPTH * boxes;
    const int first = min(stages, static_cast<int>(blockIdx.y) * depth), last = min(stages, first + depth);
    // The panel of a stage's first tap: panels are ordered (32 channels, tap).
    const auto panel_of = [&](int stage) {
        if (FEW || boxes == 0) return stage;
        const int box = stage % boxes;
        return stage / boxes * taps + box / box_columns * tap_rows * along.taps + box % box_columns * tap_columns;
    };

    // Shared memory: the ring of panels, the halo with its inverse scales, and the positions of its pixels, or terms.
    extern __shared__ uint4 shared[];
    const int halo_pixels = (tile.halo() + 15) / 16 * 16;
    const Tile halo{shared + RING * PANEL, halo_pixels};
    float* inverse_scale = reinterpret_cast<float*>(halo.chunks + COPIES * halo_pixels * Tile::CHUNKS);
    int* places = reinterpret_cast<int*>(inverse_scale + (SCALED<FORMAT> ? halo_pixels : 0));
    Tap* terms = reinterpret_cast<Tap*>(places);

    const uint4* from = packed + (static_cast<long long>(at_block.phase) * tiles_n + blockIdx.x % tiles_n)
        * class_panels * PANEL;
    const int end = panel_of(last);
    int panel = panel_of(first);
    const auto copy_panel = [&](int which) {
        if (which < end)
            for (int i = threadIdx.x; i < PANEL; i += 32 * WARPS)
                copy_sixteen(shared + which % RING * PANEL + i, from + static_cast<long long>(which) * PANEL + i, 1);
        commit_copies();
    };
#pragma unroll
    for (int ahead = 0; ahead < RING - 1; ++ahead) copy_panel(panel + ahead);
    if constexpr (FEW)
#pragma unroll 1
        for (int i = threadIdx.x; i < c * taps; i += 32 * WARPS) {
            const int row = i % taps / along.taps, column = i % taps % along.taps;
            terms[i] = {i / taps * h * w + row * w + column, row << 16 | column};
        }

    // A lane's rows of fragments, and four sums of each output: row r is pixel 4 (r % 8) + r / 8, for neighbours.
    const auto place_of = [&](int pixel) {
        return windows ? place2d<true>(pixel, rows / 2, columns / 2) : place2d<false>(pixel, rows, columns);
    };
    const int count = tile.count(), tile_wide = tile.wide();
    const auto seen = [&](int pixel) { return static_cast<unsigned>(pixel < count ? tile.seen(place_of(pixel)) : 0); };
    unsigned rows_of = 0, pixels_of[2] = {};  // two in each word: a halo has less than 2^16 pixels
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        const int r = lane % 16 + 16 * i;
        rows_of |= seen(32 * warp + 4 * (r % 8) + r / 8) << 16 * i;
        pixels_of[0] |= seen(32 * warp + 4 * g + i) << 16 * i;
        pixels_of[1] |= seen(32 * warp + 4 * g + 2 + i) << 16 * i;
    }

    float sum[2][BN / 8][4] = {};
    const float* image = x + static_cast<long long>(image0) * c * h * w;
    for (int stage = first; stage < last; ++stage) {
        const int box = FEW ? 0 : stage % boxes, channel = FEW ? DEPTH * stage : stage / boxes * DEPTH,
            left = (FEW ? c * taps : c) - channel;
        const int tap0 = FEW ? 0 : box / box_columns * tap_rows, tap1 = FEW ? 0 : box % box_columns * tap_columns;
        const int read_row = down.first + row0 * down.stride, read_column = along.first + column0 * along.stride;
        __syncthreads();  // all threads have read the halo of the stage before
        if (!FEW && (stage == first || boxes > 1)) {
            find_places(places, tile, n - image0, c, h, w, read_row + tap0, read_column + tap1);
            __syncthreads();
        }
        // A warp copies eight pixels at a time: lanes 0 to 7 their terms 0 to 7, lanes 8 to 15 terms 8 to 15, and so
        // on. Loads of ROUNDS turns of a thread are in flight together.
        const int term0 = lane / 8 * 8;
#pragma unroll 1
        for (int pixel0 = 8 * warp + lane % 8; pixel0 < halo_pixels; pixel0 += ROUNDS * 8 * WARPS) {
            float held[ROUNDS][8];
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int pixel = pixel0 + round * 8 * WARPS;
                if constexpr (FEW) {
                    const Place2d at = place2d<false>(pixel, rows, columns);
                    const int row = read_row + at.row * down.stride, column = read_column + at.column * along.stride;
                    const bool there = pixel < count && at.image < n - image0;
                    const float* source = image + (at.image * c * h + row) * w + column;
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const bool wanted = there && term0 + i < left;
                        const Tap tap = terms[wanted ? channel + term0 + i : 0];
                        const bool inside = wanted
                            && static_cast<unsigned>(row + (tap.where >> 16)) < static_cast<unsigned>(h)
                            && static_cast<unsigned>(column + (tap.where & 0xffff)) < static_cast<unsigned>(w);
                        held[round][i] = inside ? source[tap.offset] : 0.0f;
                    }
                } else {
                    const int place = pixel < tile.halo() ? places[pixel] : -1;
                    const unsigned plane = h * w;  // an image has less than 2^32 numbers
                    const float* source = image + (static_cast<long long>(channel + term0) * plane + max(place, 0));
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        held[round][i] = place >= 0 && term0 + i < left ? source[i * plane] : 0.0f;
                }
            }
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int pixel = pixel0 + round * 8 * WARPS;
                if (pixel - lane % 8 >= halo_pixels) break;  // for all lanes of the warp
                if constexpr (SCALED<FORMAT>) {
                    const unsigned exponent = shared_exponent<8, 32>(largest_of(held[round]));
#pragma unroll
                    for (int i = 0; i < 8; ++i) held[round][i] *= power_of_two(exponent);
                    if (lane < 8) inverse_scale[pixel] = power_of_two(254u - exponent) * DOWN;
                }
                halo.put(held[round], pixel, term0 / Tile::EACH);
            }
        }

        const int here_rows = FEW ? 1 : min(tap_rows, down.taps - tap0), here_columns = FEW ? 1
            : min(tap_columns, along.taps - tap1);
        int tap_row = 0, tap_column = 0;
        for (int tap = 0; tap < here_rows * here_columns; ++tap, ++panel) {
            wait_for_copies<RING - 2>();
            __syncthreads();  // the panel is there, and the halo; all threads have read the panel before
            copy_panel(panel + RING - 1);
            const Panel weights{shared + panel % RING * PANEL, BN};
            const float* scales = reinterpret_cast<const float*>(weights.chunks + COPIES * BN * Panel::CHUNKS);
            const int offset = tap_row * tile_wide + tap_column;
            if (++tap_column == here_columns) tap_column = 0, ++tap_row;
            unsigned a[COPIES][STEPS][2][4];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
                    if (step * TERMS < left)
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            load_matrices(a[copy][step][i],
                            halo.at(copy, (rows_of >> 16 * i & 0xffff) + offset, 2 * step + lane / 16));
            float back[4];
            if constexpr (SCALED<FORMAT>)
#pragma unroll
                for (int e = 0; e < 4; ++e) back[e] = inverse_scale[(pixels_of[e / 2] >> e % 2 * 16 & 0xffff) + offset];
#pragma unroll
            for (int j0 = 0; j0 < BN / 8; j0 += TOGETHER) {
                unsigned b[TOGETHER][COPIES][STEPS / 2][4];  // of eight outputs, two steps each
#pragma unroll
                for (int of = 0; of < TOGETHER; ++of)
#pragma unroll
                    for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                        for (int two = 0; two < STEPS / 2; ++two)
                            load_matrices(b[of][copy][two],
                                weights.at(copy, 8 * (j0 + of) + lane % 8, 4 * two + lane / 8));
                float part[TOGETHER][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    if (step * TERMS >= left) continue;
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                        for (int of = 0; of < TOGETHER; ++of) {
                            const unsigned(&two)[4] = b[of][product == 1][step / 2];
                            const unsigned right[2] = {two[step % 2 * 2], two[step % 2 * 2 + 1]};
#pragma unroll
                            for (int i = 0; i < 2; ++i) mma_step<FORMAT>(part[of][i], a[product == 0][step][i], right);
                        }
                }
#pragma unroll
                for (int of = 0; of < TOGETHER; ++of)
#pragma unroll
                    for (int i = 0; i < 2; ++i)
#pragma unroll
                        for (int l = 0; l < 4; ++l) {
                            const int j = j0 + of;
                            if constexpr (SCALED<FORMAT>) {
                                sum[i][j][l] = fmaf(part[of][i][l] * back[2 * i + l / 2], scales[8 * j + 2 * t + l % 2],
                                    sum[i][j][l]);
                            } else {
                                sum[i][j][l] += part[of][i][l];
                            }
                        }
            }
        }
    }
    wait_for_copies<0>();

    // Sums are copied from registers to shared memory, so that the following code exists once, in a loop: unrolled for
    // each register it was 200 kB, more than the instruction cache.
    __syncthreads();  // all threads have read the last panel and the halo
    float* const own = reinterpret_cast<float*>(shared) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < BN / 8; ++j)
#pragma unroll
            for (int l = 0; l < 4; ++l) own[((2 * j + l % 2) * 4 + 2 * i + l / 2) * 32 * WARPS] = sum[i][j][l];

    // The four pixels of a lane: their places in the images of their class, and true if they exist.
    if (32 * warp + 4 * g >= count) return;
    Place2d at[4];
    bool there[4];
    const auto after_in = [&](const Place2d& from) {  // the tile's next pixel
        const bool line = from.column - column0 == columns - 1, picture = line && from.row - row0 == rows - 1;
        return Place2d{from.image + picture, picture ? row0 : from.row + line, line ? column0 : from.column + 1};
    };
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (FEW || e == 0) {  // for FEW with 64 outputs the others would take registers that its sums need
            at[e] = place_of(32 * warp + 4 * g + e);
            at[e].image += image0, at[e].row += row0, at[e].column += column0;
        } else if (windows) {
            at[e] = {at[0].image, at[0].row + e / 2, at[0].column + e % 2};
        } else {
            at[e] = after_in(at[e - 1]);
        }
        there[e] = 32 * warp + 4 * g + e < count && at[e].image < n && at[e].row < high && at[e].column < wide;
    }
    const bool neighbours = columns % 4 == 0 && wide % 4 == 0;  // the four stand side by side, and are there together
    const bool aligned = reinterpret_cast<unsigned long long>(y) % 16 == 0
        && reinterpret_cast<unsigned long long>(relu_mask) % 16 == 0;
#pragma unroll 1
    for (int which = 0; which < BN / 4; ++which) {  // of the lane's outputs
        const int output = at_block.o0 + which / 2 * 8 + 2 * t + which % 2;
        if (output >= outputs) continue;
        float four[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) four[e] = own[(4 * which + e) * 32 * WARPS];
        if (parts) {  // pixels as gemm.cu counts them
            float* part = y + ((static_cast<long long>(blockIdx.y) * classes + at_block.phase) * outputs + output)
                * part_pitch;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (!there[e]) continue;
                const int pixel = windows ? ((at[e].image * (high / 2) + at[e].row / 2) * (wide / 2)
                    + at[e].column / 2) * 4 + e : (at[e].image * high + at[e].row) * wide + at[e].column;
                part[pixel] = four[e];
                const int all = n * high * wide;
                if (pixel == all - 1)  // add_parts reads four at a time
                    for (int beyond = all; beyond % 4 > 0; ++beyond) part[beyond] = 0.0f;
            }
            continue;
        }
        const int merged = direction == MERGED ? output / o : 0, channel = output - merged * o;  // phase, channel
        const float add = bias != nullptr ? bias[channel] : 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            four[e] += add;
            if (after == RELU) four[e] = relu(four[e]);
        }
        if (windows) {
            if (!there[0]) continue;
            const long long target = ((static_cast<long long>(at[0].image) * o + channel) * (oh / 2) + at[0].row / 2)
                * (ow / 2) + at[0].column / 2;
            store_best(best_of(four), y, argmax, target);
            continue;
        }
        Axis to_row = down, to_column = along;
        if (direction == MERGED) {
            to_row = transposed_axis(oh, k, stride, padding, merged / stride),
                to_column = transposed_axis(ow, k, stride, padding, merged % stride);
            to_row.step = to_column.step = stride;
        }
        const long long plane = (static_cast<long long>(at[0].image) * o + channel) * oh;
        if (neighbours && aligned && to_column.step == 1 && ow % 4 == 0 && direction != MERGED) {
            if (!there[0]) continue;
            const long long target = (plane + to_row.begin + at[0].row * to_row.step) * ow + at[0].column;
            float4 out = make_float4(four[0], four[1], four[2], four[3]);
            if (relu_mask != nullptr) out = relu_gradient(out, *reinterpret_cast<const float4*>(relu_mask + target));
            *reinterpret_cast<float4*>(y + target) = out;
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int line = to_row.begin + at[e].row * to_row.step,
                column = to_column.begin + at[e].column * to_column.step;
            if (!there[e] || line >= oh || column >= ow) continue;
            const long long target = ((static_cast<long long>(at[e].image) * o + channel) * oh + line) * ow + column;
            y[target] = relu_mask != nullptr ? relu_gradient(four[e], relu_mask[target]) : four[e];
        }
    }
}
