// Packing of samples for packed_forward.cu, done once, for a batch that is the whole data set.
constexpr int SAMPLES = 256;

// Block (x, y) packs word y, inputs 4 y to 4 y + 3, of samples 256 x to 256 x + 255; zeros beyond the inputs and the
// samples.
// source: (n, inputs), packed: (blocks, words, SAMPLES).
extern "C" __global__ void __launch_bounds__(SAMPLES)
    chain_pack(const unsigned char* __restrict__ source, unsigned* __restrict__ packed, int n, int inputs) {
    const int s = blockIdx.x * SAMPLES + threadIdx.x, first = blockIdx.y * 4;
    unsigned word = 0;
    for (int e = 0; e < 4; ++e)
        if (s < n && first + e < inputs)
            word |= static_cast<unsigned>(source[static_cast<long long>(s) * inputs + first + e]) << 8 * e;
    packed[(static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y) * SAMPLES + threadIdx.x] = word;
}
