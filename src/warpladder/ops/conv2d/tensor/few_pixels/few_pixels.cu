// Convolutions of few pixels on tensor cores, one launch each: y with the layers after it, or dx.
// Launched by `FewPixelsConvolution` of few_pixels.py.
//
// With one image there is little arithmetic: the kernel time is that of the smallest useful block from its first load
// to its last store, and no second launch must follow. A group of four warps has 64 pixels, 16 channels with all taps,
// and 8 to 32 columns. It copies, scales and splits them, waits once, and runs a short loop over the taps. All groups
// that share sums are in one cluster: each block adds a part of the tile from the shared memory of all, in the order of
// the channels, and finishes it. A line of x is 16 channels of a pixel, a line of the weights is an output's weights of
// 16 channels. Formats, scales: tensor_panels.cuh.
// arch: sm_90, sm_100
// instance: convolve_few_pixels<SPLIT, WINDOW, 4, false>; convolve_few_pixels<SPLIT, WINDOW, 4, true>
// instance: convolve_few_pixels<SPLIT, UPSAMPLED, 4, false>; convolve_few_pixels<SPLIT, GATHERED, 2, false>
#include "few_pixels.cuh"
#include "four.cuh"
#include "pooled.cuh"
#include "sync.cuh"

constexpr int MOST = 8;             // blocks of a cluster
// of a column's sums in shared memory: the four columns and eight pixels that a warp writes at a time are in 32 banks
constexpr int PITCH = PIXELS + 4;

// x: (n, c, h, wide), the input image; POOLED: the gradient of a 2 x 2 pool, whose argmax indices are in pool_argmax.
// w: (o, c, 3, 3), or backwards (c, o, 3, 3). y: (n, o, oh, ow), the output image; after a pool (n, o, oh / 2, ow / 2),
// and argmax as y. relu_mask: null, or as y: y is 0 where relu_mask is not above 0. target, dy: null, or as y: dy = (y
// - target) `rate`, the gradient of a mean squared error, if relu_mask is null and no pool follows. KIND: taps.cuh.
// Windows have a pixel of padding and move by one; UPSAMPLED writes twice the rows and columns that it reads, GATHERED
// half of them. A block's columns are 8 TILES outputs; UPSAMPLED: eight outputs of four classes. A tile has rows x
// columns written pixels of a class, with a pool whole windows. The grid's x is the cluster, which shares the channels;
// its y counts columns, its z tiles of pixels. by_..: inverses (narrow.cuh) of the numbers of an image's tiles, of
// tiles in a row, of pixels (or windows) in a row of a tile, and of the halo's columns.
template <int FORMAT, int KIND, int TILES, bool POOLED>
__global__ void __launch_bounds__(2 * GROUP, 1) convolve_few_pixels(
    const float* __restrict__ x, const unsigned char* __restrict__ pool_argmax, const float* __restrict__ w,
    const float* __restrict__ bias, const float* __restrict__ relu_mask, const float* __restrict__ target,
    float* __restrict__ y, float* __restrict__ dy, unsigned char* __restrict__ argmax, float rate, int c, int h,
    int wide, int o, int oh, int ow, int rows, int columns, int tiles, int across, int backwards, int has_relu,
    int pool, unsigned by_tiles, unsigned by_across, unsigned by_columns, unsigned by_wide
) {
    using Row = Lines<FORMAT, CHANNELS>;
    constexpr int CLASSES = KIND == UPSAMPLED ? 4 : 1, NUMBERS = TwoKernels<KIND>::NUMBERS, SIDE = KIND == WINDOW ? 3
        : KIND == UPSAMPLED ? 2 : 4;
    constexpr int WIDTH = 8 * TILES / CLASSES, COLUMNS = 8 * TILES, ROUNDS = 2,
        TURNS = (WIDTH * CHANNELS / 2 + GROUP - 1) / GROUP;
    const int lane = threadIdx.x % 32, thread = threadIdx.x % GROUP, warp = thread / 32, g = lane / 4, t = lane % 4;
    const int group = threadIdx.x / GROUP, groups = blockDim.x / GROUP, rank = cluster_rank(), size = cluster_size();
    const TileHalo<KIND> halo{rows, columns};

    // The tile: its image, and its first pixel among the high x broad ones of a class.
    const int high = pool ? oh / 2 * 2 : KIND == UPSAMPLED ? oh / 2 : oh, broad = pool ? ow / 2 * 2 : KIND == UPSAMPLED
        ? ow / 2 : ow;
    const int image = Divider{tiles, by_tiles}.quotient(blockIdx.z), tile = blockIdx.z - image * tiles;
    const int tile_row = Divider{across, by_across}.quotient(tile), row0 = tile_row * rows,
        column0 = (tile - tile_row * across) * columns;
    // numbers of w from one to the next
    const int o0 = blockIdx.y * WIDTH, of_channel = backwards ? 9 * o : 9, of_column = backwards ? 9 : 9 * c;
    const Source<POOLED> source(x, pool_argmax, image, c, h, wide);
    const Divider of_columns{pool ? columns / 2 : columns, by_columns}, of_wide{halo.wide(), by_wide};

    // Shared memory: the sums of each group, then its halo and its weights.
    extern __shared__ uint4 shared[];
    float* partials = reinterpret_cast<float*>(shared);
    const int halo_pixels = halo.pixels();
    const Row seen{shared + groups * (COLUMNS * PITCH / 4) + group * (halo_pixels + NUMBERS * WIDTH) * Row::STRIDE},
        weights{seen.chunks + halo_pixels * Row::STRIDE};

    // A pixel of the tile: with a pool window by window, so that four neighbouring numbers are one.
    const auto pixel_of = [&](int number) {
        const int unit = pool ? number / 4 : number, row = of_columns.quotient(unit),
            column = unit - row * of_columns.by;
        return pool ? make_int2(2 * row + number / 2 % 2, 2 * column + number % 2) : make_int2(row, column);
    };
    const int2 mine = pixel_of(min(16 * warp + lane % 16, rows * columns - 1));
    const int row_of = halo.seen(mine.x, mine.y);

    float sum[TILES][4] = {};
    const int chunks = (c + CHANNELS - 1) / CHANNELS;
#pragma unroll 1
    for (int chunk0 = 0; chunk0 < chunks; chunk0 += size * groups) {
        const int channel0 = (chunk0 + rank * groups + group) * CHANNELS, left = c - channel0;
        if (chunk0 > 0) __syncthreads();  // all threads have read the channels before
        if (left > 0) {
            // The weights are requested first, and used after the pixels.
            TwoKernels<KIND> kernels[TURNS];
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) {
                const int number = thread + turn * GROUP, column = o0 + number / (CHANNELS / 2),
                    channel = channel0 + number % (CHANNELS / 2) * 2;
                const bool there = number < WIDTH * CHANNELS / 2 && column < o;
                kernels[turn].read(w + (channel * of_channel + column * of_column), of_channel, there ? c - channel
                    : 0);
            }
            // A warp copies 16 pixels at a time, lanes 0 to 15 their first eight channels, lanes 16 to 31 the others.
            const int first = lane / 16 * 8;
#pragma unroll 1
            for (int pixel0 = 16 * warp; pixel0 < halo_pixels; pixel0 += ROUNDS * PIXELS) {
                float held[ROUNDS][8];
                int to[ROUNDS];
#pragma unroll
                for (int round = 0; round < ROUNDS; ++round) {
                    const int pixel = pixel0 + round * PIXELS + lane % 16, row = of_wide.quotient(pixel),
                        column = pixel - row * of_wide.by;
                    to[round] = pixel < halo_pixels ? halo.place(row, column) : -1;
                    const int from_row = TileHalo<KIND>::STEP * row0 - 1 + row,
                        from_column = TileHalo<KIND>::STEP * column0 - 1 + column;
                    source.read(held[round], to[round] < 0 ? -1 : from_row, from_column, channel0 + first,
                        left - first);
                }
#pragma unroll
                for (int round = 0; round < ROUNDS; ++round) {
                    float back = 1.0f;
                    if constexpr (SCALED<FORMAT>) {
                        const unsigned exponent = shared_exponent<16, 32>(largest_of(held[round]));
                        scale_all(held[round], power_of_two(exponent));
                        back = power_of_two(254u - exponent) * DOWN;
                    }
                    if (to[round] < 0) continue;
                    seen.put(Eight<FORMAT>(held[round]), to[round], lane / 16);
                    if (SCALED<FORMAT> && lane < 16) *seen.inverse_scale(to[round]) = back;
                }
            }
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) {
                const int number = thread + turn * GROUP, column = number / (CHANNELS / 2),
                    two = number % (CHANNELS / 2);
                float by = 1.0f;
                if constexpr (SCALED<FORMAT>) {  // the lanes of a column are eight neighbours
                    unsigned largest = 0;
#pragma unroll
                    for (int l = 0; l < 2; ++l)
#pragma unroll
                        for (int at = 0; at < NUMBERS; ++at)
                            largest = max(largest, bits_of_size(kernels[turn].number(l, at)));
                    const unsigned exponent = shared_exponent<1, CHANNELS / 2>(largest);
                    by = power_of_two(exponent);
                    if (two == 0 && column < WIDTH) *weights.inverse_scale(column) = power_of_two(254u - exponent) * UP;
                }
                if (column >= WIDTH) continue;
                // Backwards a window is rotated; a folded kernel is already that of the other direction.
                const bool turned = KIND == WINDOW && backwards;
                unsigned* to = reinterpret_cast<unsigned*>(weights.chunks
                    + ((turned ? (NUMBERS - 1) * WIDTH : 0) + column) * Row::STRIDE) + two;
                const int next = (turned ? -4 : 4) * WIDTH * Row::STRIDE;
#pragma unroll
                for (int at = 0; at < NUMBERS; ++at, to += next) {
                    unsigned high_half_word, low_half_word;
                    two_numbers<FORMAT>(kernels[turn].number(0, at) * by, kernels[turn].number(1, at) * by,
                        high_half_word, low_half_word);
                    to[0] = high_half_word;
                    if constexpr (FORMAT == SPLIT) to[4 * Row::CHUNKS] = low_half_word;
                }
            }
        }
        __syncthreads();
        if (left <= 0) continue;

        const uint4* read = seen.at(0, row_of, lane / 16);
        const float* inverse_scale[2] = {seen.inverse_scale(__shfl_sync(EVERY_LANE, row_of, g)),
            seen.inverse_scale(__shfl_sync(EVERY_LANE, row_of, g + 8))};
        const uint4* meets = weights.at(0, lane % 8, lane / 8 % (2 * Row::COPIES));
        float of_chunk[TILES][4] = {};
#pragma unroll 1
        for (int tap = 0; tap < SIDE * SIDE; ++tap) {
            const int i = tap / SIDE, j = tap % SIDE;
            unsigned a[Row::COPIES][4];
            float back[2];
#pragma unroll
            for (int of = 0; of < TILES; ++of) {
                const int down = CLASSES == 4 ? of / 2 : 0, col = CLASSES == 4 ? of % 2 : 0;
                if (of == 0 || CLASSES == 4) {
                    const int offset = KIND == GATHERED ? i * halo.wide() + j % 2 * (columns + 1) + j / 2
                        : (i + down) * halo.wide() + j + col;
#pragma unroll
                    for (int copy = 0; copy < Row::COPIES; ++copy)
                        load_matrices(a[copy], read + offset * Row::STRIDE + copy * Row::CHUNKS);
#pragma unroll
                    for (int l = 0; l < 2; ++l)
                        back[l] = SCALED<FORMAT> ? inverse_scale[l][4 * offset * Row::STRIDE] : 1.0f;
                }
                const int line = CLASSES == 4 ? ((3 - down - 2 * i) * 4 + 3 - col - 2 * j) * WIDTH
                    : tap * WIDTH + 8 * of;
                unsigned b[2 * Row::COPIES];
                load_matrices(b, meets + line * Row::STRIDE);
                float part[4] = {};
#pragma unroll
                // al bh, ah bl, ah bh: the small ones first
                for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product) {
                    const int second = product == 1 ? 2 * (Row::COPIES - 1) : 0;
                    const unsigned right[2] = {b[second], b[second + 1]};
                    mma_step<FORMAT>(part, a[product == 0 ? Row::COPIES - 1 : 0], right);
                }
#pragma unroll
                for (int l = 0; l < 4; ++l)
                    of_chunk[of][l] = SCALED<FORMAT> ? fmaf(part[l], back[l / 2], of_chunk[of][l])
                        : of_chunk[of][l] + part[l];
            }
        }
#pragma unroll
        for (int of = 0; of < TILES; ++of)
#pragma unroll
            for (int l = 0; l < 4; ++l) {
                const float scale = SCALED<FORMAT>
                    ? *weights.inverse_scale((CLASSES == 4 ? 0 : 8 * of) + 2 * t + l % 2) : 1.0f;
                sum[of][l] = fmaf(of_chunk[of][l], scale, sum[of][l]);
            }
    }

    float* partial = partials + group * COLUMNS * PITCH;
#pragma unroll
    for (int of = 0; of < TILES; ++of)
#pragma unroll
        for (int l = 0; l < 4; ++l) partial[(8 * of + 2 * t + l % 2) * PITCH + 16 * warp + g + l / 2 * 8] = sum[of][l];
    cluster_sync();

    // Each block finishes its share of the tile, four neighbouring pixels of a column at a time.
    constexpr int FOURS = COLUMNS * PIXELS / 4;
    const int share = (FOURS + size - 1) / size, last = min(FOURS, (rank + 1) * share), plane = oh * ow;
#pragma unroll 1
    for (int four = rank * share + threadIdx.x; four < last; four += blockDim.x) {
        const int column = four / (PIXELS / 4), number = four % (PIXELS / 4) * 4, output = o0 + column % WIDTH,
            of_class = column / WIDTH;
        if (output >= o) continue;
        const int stored = pool ? (oh / 2) * (ow / 2) : plane;
        const long long from = (static_cast<long long>(image) * o + output) * stored;
        int to[4];
        float under[4], wanted[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int2 at = pixel_of(number + e);
            const int row = row0 + at.x, col = column0 + at.y;
            to[e] = number + e >= rows * columns || row >= high || col >= broad ? -1
                    : pool                                                          ? row / 2 * (ow / 2) + col / 2
                    : CLASSES == 4 ? (2 * row + of_class / 2) * ow + 2 * col + of_class % 2 : row * ow + col;
            under[e] = relu_mask != nullptr && to[e] >= 0 ? relu_mask[from + to[e]] : 1.0f;
            wanted[e] = target != nullptr && to[e] >= 0 ? target[from + to[e]] : 0.0f;
        }
        const float start = bias != nullptr ? bias[output] : 0.0f;
        float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (int from_group = 0; from_group < groups; ++from_group) {
            float4 parts[MOST];
#pragma unroll
            for (int block = 0; block < MOST; ++block)
                if (block < size)
                    parts[block] = *reinterpret_cast<const float4*>(shared_of(partials, block)
                    + (from_group * COLUMNS + column) * PITCH + number);
#pragma unroll
            for (int block = 0; block < MOST; ++block)
                if (block < size) all = all + parts[block];
        }
        const float found[4] = {all.x + start, all.y + start, all.z + start, all.w + start};
        if (pool) {
            if (to[0] >= 0) store_best(best_of(found), y, argmax, from + to[0]);
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (to[e] < 0) continue;
            const float value = !(under[e] > 0.0f) ? 0.0f : has_relu ? relu(found[e]) : found[e];
            y[from + to[e]] = value;
            if (target != nullptr) dy[from + to[e]] = (value - wanted[e]) * rate;
        }
    }
    __syncwarp();    // the barrier needs whole warps
    cluster_sync();  // no block leaves while others read its sums
}
