// Two-dimensional cross-correlation by tiles in shared memory.
// Launched by tiled.py.
// x, dx: (n, c, h, w); weight, dweight: (o, c, k, k); bias: (o,); y, dy: (n, o, oh, ow).
// instance: convolve<0, 4, false>; convolve<0, 4, true>; convolve<0, 8, false>; convolve<0, 8, true>
// instance: convolve<0, 16, false>; convolve<0, 16, true>; convolve<3, 4, false>; convolve<3, 4, true>
// instance: convolve<3, 8, false>; convolve<3, 8, true>; convolve<3, 16, false>; convolve<3, 16, true>
// instance: weight_gradient<1, 4>; weight_gradient<1, 8>; weight_gradient<3, 4>; weight_gradient<3, 8>
#include "nan.cuh"
#include "warp.cuh"

// Copies rows x columns pixels, from (top, left) on, of each of `now` channels of an image (., height, width) to tile
// (now, rows, pitch), zeros outside. The image's numbers are `spread` apart, with zeros between them. relu_mask: null,
// or as the image: numbers are 0 where relu_mask is not above 0. A thread computes one offset and copies its pixel from
// every channel.
__device__ __forceinline__ void stage_image(float* tile, const float* image, const float* relu_mask, int now,
    int height, int width, int spread, int top, int left, int rows, int columns, int pitch) {
    for (int place = threadIdx.x; place < rows * columns; place += blockDim.x) {
        const int r = place / columns, c = place % columns;
        int row = top + r, column = left + c;
        bool inside = row >= 0 && column >= 0;
        if (spread > 1) {
            inside = inside && row % spread == 0 && column % spread == 0;
            row /= spread;
            column /= spread;
        }
        inside = inside && row < height && column < width;
        const int from = row * width + column, to = r * pitch + c;
#pragma unroll 8
        for (int channel = 0; channel < now; ++channel) {
            const int at = channel * height * width + from;
            tile[channel * rows * pitch + to] = inside && (relu_mask == nullptr || relu_mask[at] > 0.0f) ? image[at]
                : 0.0f;
        }
    }
}

// Floats between the rows of a tile of weights: F of them are read 16 bytes at a time, and warps write them in columns.
template <int F>
__device__ constexpr int weight_pitch() {
    return F > 4 ? F + 4 : F;
}

// Copies the weights for channels c0 ... c0 + now - 1 and kernel rows i0 ... i0 + rows - 1, in the order in which each
// group of F filters reads them: tile[group][(channel * rows + i) * k + j][f], `spacing` floats from group to group,
// zeros beyond the last filter. A warp copies one filter (BACKWARD: one channel) at a time.
template <int K, int F, bool BACKWARD>
__device__ __forceinline__ void stage_weights(float* tile, const float* weight, int channels, int filters, int first,
    int count, int c0, int now, int kernel, int i0, int rows, int spacing) {
    constexpr int PITCH = weight_pitch<F>();
    const int k = K > 0 ? K : kernel, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int each = (K > 0 ? K : rows) * k;  // weights of one channel and filter
    if constexpr (BACKWARD) {  // weight (channels, filters, k, k), turned by half a circle
        for (int channel = warp; channel < now; channel += warps) {
            const float* from = weight + (static_cast<long long>(c0 + channel) * filters + first) * k * k + k * k - 1
                - i0 * k;
#pragma unroll 4
            for (int e = lane; e < count * each; e += 32) {
                const int f = e / each, place = e % each;
                tile[f / F * spacing + (channel * each + place) * PITCH + f % F] = first + f < filters
                    ? from[f * k * k - place] : 0.0f;
            }
        }
    } else {  // weight (filters, channels, k, k)
        for (int f = warp; f < count; f += warps) {
            const float* from = weight + (static_cast<long long>(first + f) * channels + c0) * k * k + i0 * k;
            float* to = tile + f / F * spacing + f % F;
#pragma unroll 8
            for (int e = lane; e < now * each; e += 32) {
                const int at = K > 0 ? e : e / each * k * k + e % each;
                to[e * PITCH] = first + f < filters ? from[at] : 0.0f;
            }
        }
    }
}

// Forward pass and input gradient: both correlate images with filters.
//
// out[n, f, p, q] = bias[f] + sum over channels, i, j of W(f, channel, i, j) S(n, channel, p step + i - pad, q step + j
// - pad), then ReLU if `has_relu` is 1. S is the source (n, channels, height, width) with its numbers `spread` apart
// and zeros around and between them. Forward: S is x, W(f, c, i, j) = weight[f, c, i, j], step the stride, spread 1,
// pad the padding. BACKWARD: S is dy, masked by relu_mask, W(f, c, i, j) = weight[c, f, k-1-i, k-1-j], step 1, spread
// the stride, pad k - 1 - padding.
//
// A block computes a tile of tile_height x tile_width pixels, a thread one of them for F filters; `groups` sets of
// threads share the tile. Tiles and samples are numbered along x, filters along y. stage_channels channels at a time,
// the tile with its halo and the weights are copied to shared memory: 1 + F/4 loads for F multiply-adds. K is the
// kernel size, or 0 for any, `kernel`; then a stage may also be limited to stage_rows rows of the kernel.
template <int K, int F, bool BACKWARD>
__global__ void __launch_bounds__(F > 4 ? 768 : 1024, 1) convolve(
    const float* __restrict__ source, const float* __restrict__ relu_mask, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ out, int channels, int height, int width, int filters,
    int out_height, int out_width, int kernel, int step, int spread, int pad, int tile_height, int tile_width,
    int groups, int stage_channels, int stage_rows, int pitch, int has_relu
) {
    extern __shared__ float4 shared4[];
    const int k = K > 0 ? K : kernel;
    const int across = (out_width + tile_width - 1) / tile_width, down = (out_height + tile_height - 1) / tile_height;
    const int sample = blockIdx.x / (across * down), tile = blockIdx.x % (across * down);
    const int top = tile / across * tile_height, left = tile % across * tile_width;
    const int pixels = tile_height * tile_width, group = threadIdx.x / pixels, pixel = threadIdx.x % pixels;
    const int ty = pixel / tile_width, tx = pixel % tile_width;
    const int count = groups * F, first = blockIdx.y * count;
    const int rows = (tile_height - 1) * step + (K > 0 ? K : stage_rows), columns = (tile_width - 1) * step + k;
    const int spacing = stage_channels * (K > 0 ? K : stage_rows) * k * weight_pitch<F>();
    float* weights = reinterpret_cast<float*>(shared4);
    float* image = weights + groups * spacing;
    source += static_cast<long long>(sample) * channels * height * width;
    if (relu_mask != nullptr) relu_mask += static_cast<long long>(sample) * channels * height * width;

    float sum[F];
#pragma unroll
    for (int f = 0; f < F; ++f) sum[f] = 0.0f;
    for (int c0 = 0; c0 < channels; c0 += stage_channels) {
        const int now = min(stage_channels, channels - c0);
        for (int i0 = 0; i0 < k; i0 += K > 0 ? K : stage_rows) {
            const int high = K > 0 ? K : min(stage_rows, k - i0);  // rows of the kernel in this stage
            const long long from = static_cast<long long>(c0) * height * width;
            __syncthreads();  // all threads are done with the stage before
            stage_image(image, source + from, relu_mask != nullptr ? relu_mask + from : nullptr, now, height, width,
                spread, top * step + i0 - pad, left * step - pad, rows, columns, pitch);
            stage_weights<K, F, BACKWARD>(weights, weight, channels, filters, first, count, c0, now, k, i0, high,
                spacing);
            __syncthreads();
            if (group >= groups) continue;
            const float* at = image + ty * step * pitch + tx * step;
            const float* w = weights + group * spacing;
            for (int channel = 0; channel < now; ++channel) {
#pragma unroll(K > 0 ? K : 1)
                for (int i = 0; i < high; ++i) {
#pragma unroll(K > 0 ? K : 1)
                    for (int j = 0; j < k; ++j) {
                        const float value = at[i * pitch + j];
#pragma unroll
                        for (int f = 0; f < F; f += 4) {
                            const float4 four = *reinterpret_cast<const float4*>(w + f);
                            sum[f] = fmaf(value, four.x, sum[f]);
                            sum[f + 1] = fmaf(value, four.y, sum[f + 1]);
                            sum[f + 2] = fmaf(value, four.z, sum[f + 2]);
                            sum[f + 3] = fmaf(value, four.w, sum[f + 3]);
                        }
                        w += weight_pitch<F>();
                    }
                }
                at += rows * pitch;
            }
        }
    }

    const int p = top + ty, q = left + tx;
    if (group >= groups || p >= out_height || q >= out_width) return;
#pragma unroll
    for (int f = 0; f < F; ++f) {
        const int filter = first + group * F + f;
        if (filter >= filters) break;
        const float value = bias != nullptr ? sum[f] + bias[filter] : sum[f];
        out[((static_cast<long long>(sample) * filters + filter) * out_height + p) * out_width + q] = has_relu
            ? relu(value) : value;
    }
}

// Gradients of weights and bias: sums over all samples and pixels.
//
// dweight[f, c, i, j] = sum over n, p, q of dy[n, f, p, q] x[n, c, p stride - padding + i, q stride - padding + j], dy
// masked by relu_mask; dbias[f] = the sum of dy. A warp computes PATCH x PATCH elements of the kernel for one channel
// and F filters: its lanes share the pixels of a tile, hold F * PATCH^2 sums in registers and add them by shuffles at
// the end. The warps of a block have consecutive channels and the same filters, whose dy they share; the one beyond the
// last channel has the bias. F + PATCH^2 loads for F * PATCH^2 multiply-adds. Along x all tiles (`tiles`) in gridDim.x
// equal parts, part s going to dweight and dbias + s * spacing; along y filters; along z patches, then channels.
template <int PATCH, int F>
__global__ void __launch_bounds__(512, 1) weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ relu_mask,
    float* __restrict__ dweight, float* __restrict__ dbias, long long spacing, int tiles, int channels, int height,
    int width, int filters, int out_height, int out_width, int kernel, int stride, int padding, int tile_height,
    int tile_width, int pitch
) {
    constexpr int PLACES = PATCH * PATCH;
    extern __shared__ float4 shared4[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int patches = (kernel + PATCH - 1) / PATCH, patch = blockIdx.z % (patches * patches);
    const int i0 = patch / patches * PATCH, j0 = patch % patches * PATCH;
    const int c0 = blockIdx.z / (patches * patches) * warps, channel = c0 + warp;
    const int first = blockIdx.y * F;
    const int across = (out_width + tile_width - 1) / tile_width, down = (out_height + tile_height - 1) / tile_height;
    const int pixels = tile_height * tile_width;
    const int rows = (tile_height - 1) * stride + PATCH, columns = (tile_width - 1) * stride + PATCH;
    float* gradient = reinterpret_cast<float*>(shared4);  // (F, pixels)
    float* image = gradient + F * pixels;                 // (warps, rows, pitch)
    const int each = (tiles + gridDim.x - 1) / gridDim.x, begin = min(tiles, static_cast<int>(blockIdx.x) * each),
        end = min(tiles, begin + each);

    float sum[F * PLACES];
#pragma unroll
    for (int e = 0; e < F * PLACES; ++e) sum[e] = 0.0f;
    for (int number = begin; number < end; ++number) {
        const int sample = number / (across * down), tile = number % (across * down);
        const int top = tile / across * tile_height, left = tile % across * tile_width;
        const long long from = (static_cast<long long>(sample) * channels + c0) * height * width;
        const long long area = static_cast<long long>(out_height) * out_width;
        __syncthreads();  // all threads are done with the tile before
        stage_image(image, x + from, nullptr, min(warps, channels - c0), height, width, 1, top * stride - padding + i0,
            left * stride - padding + j0, rows, columns, pitch);
        for (int pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
            const int p = top + pixel / tile_width, q = left + pixel % tile_width;
            const bool inside = p < out_height && q < out_width;
            const long long at = (static_cast<long long>(sample) * filters + first) * area + p * out_width + q;
#pragma unroll
            for (int f = 0; f < F; ++f) {
                const bool wanted = inside && first + f < filters
                    && (relu_mask == nullptr || relu_mask[at + f * area] > 0.0f);
                gradient[f * pixels + pixel] = wanted ? dy[at + f * area] : 0.0f;
            }
        }
        __syncthreads();
        if (channel < channels) {
            const float* corner = image + warp * rows * pitch;
            int row = lane / tile_width, column = lane % tile_width;
            for (int pixel = lane; pixel < pixels; pixel += 32) {
                const float* at = corner + row * stride * pitch + column * stride;
                float g[F];
#pragma unroll
                for (int f = 0; f < F; ++f) g[f] = gradient[f * pixels + pixel];
#pragma unroll
                for (int place = 0; place < PLACES; ++place) {
                    const float value = at[place / PATCH * pitch + place % PATCH];
#pragma unroll
                    for (int f = 0; f < F; ++f) sum[f * PLACES + place] = fmaf(g[f], value, sum[f * PLACES + place]);
                }
                row += 32 / tile_width;
                column += 32 % tile_width;
                if (column >= tile_width) {
                    column -= tile_width;
                    ++row;
                }
            }
        } else if (channel == channels && patch == 0) {
            for (int pixel = lane; pixel < pixels; pixel += 32) {
#pragma unroll
                for (int f = 0; f < F; ++f) sum[f * PLACES] += gradient[f * pixels + pixel];
            }
        }
    }

    Share share = {0, F * PLACES};
    warp_sums<F * PLACES>(sum, share);
#pragma unroll
    for (int e = 0; e < left_of(F * PLACES); ++e) {
        if (e >= share.count) break;
        const int filter = first + (share.first + e) / PLACES, place = (share.first + e) % PLACES;
        const int i = i0 + place / PATCH, j = j0 + place % PATCH;
        if (filter >= filters) continue;
        if (channel < channels && i < kernel && j < kernel)
            dweight[blockIdx.x * spacing + ((static_cast<long long>(filter) * channels + channel) * kernel + i) * kernel
                + j] = sum[e];
        if (channel == channels && patch == 0 && place == 0) dbias[blockIdx.x * spacing + filter] = sum[e];
    }
}
