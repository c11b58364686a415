// Samples packed once for one_pass, in rows of `pitch` bytes with zeros at their ends, and rows of zeros after them.
// arch: sm_90, sm_100
#include "tile.cuh"

// sizes (inputs,): bits of the largest size of each input; zeros before. Blocks along y divide the samples.
extern "C" __global__ void largest_inputs(const float* __restrict__ source, unsigned* sizes, int n, int inputs) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= inputs) return;
    unsigned largest = 0;
    for (int s = blockIdx.y; s < n; s += gridDim.y)
        largest = max(largest, bits_of_size(source[static_cast<long long>(s) * inputs + i]));
    atomicMax(sizes + i, largest);
}

// packed (rows, pitch): a block for each row.
extern "C" __global__ void pack_bytes(const unsigned char* __restrict__ source, unsigned char* __restrict__ packed,
    int n, int inputs, int pitch) {
    const long long s = blockIdx.x;
    for (int i = threadIdx.x; i < pitch; i += THREADS)
        packed[s * pitch + i] = s < n && i < inputs ? source[s * inputs + i] : 0;
}

// packed (rows, pitch), as halves: `width` high halves of the inputs, times their scales, then their low ones, in the
// order of terms.
extern "C" __global__ void pack_floats(const float* __restrict__ source, const unsigned* __restrict__ sizes,
    unsigned char* __restrict__ packed, int n, int inputs, int pitch, int width) {
    const long long s = blockIdx.x;
    unsigned short* const to = reinterpret_cast<unsigned short*>(packed + s * pitch);
    for (int k = threadIdx.x; k < pitch / 2; k += THREADS) {
        const int i = k % width / 16 * 16 + Tile<float, 16, 4, 64, 4>::input_of_term(k % 16);
        unsigned word = 0;
        if (s < n && i < inputs && k < 2 * width) {
            const float x = source[s * inputs + i] * power_of_two(input_exponent(sizes, i));
            word = two_halves(x, 0.0f);
            if (k >= width) word = two_halves(x - low_half(word), 0.0f);
        }
        to[k] = static_cast<unsigned short>(word);
    }
}
