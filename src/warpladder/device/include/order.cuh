// Order of an epoch by position: a Feistel network over 2 * half_bits bits, repeated until the value is below n. It
// has the bits of order.py; words (ORDER_WORDS,): six round keys, half_bits, n, shuffle.
#pragma once

constexpr int ORDER_ROUNDS = 6, ORDER_WORDS = ORDER_ROUNDS + 3;

// A 32-bit integer hash, lowbias32 of C. Wellons' hash-prospector (2018).
__device__ inline unsigned order_mix(unsigned x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

// n, the number of samples.
__device__ inline unsigned order_length(const unsigned* words) { return words[ORDER_ROUNDS + 1]; }

// The words in registers, loaded together, so that there is one wait for memory.
struct Order {
    unsigned key[ORDER_ROUNDS], half_bits, n, shuffle;

    Order() = default;
    __device__ explicit Order(const unsigned* words) : half_bits(words[ORDER_ROUNDS]), n(order_length(words)),
        shuffle(words[ORDER_ROUNDS + 2]) {
#pragma unroll
        for (int round = 0; round < ORDER_ROUNDS; ++round) key[round] = words[round];
    }

    // Sample at a position below n. `shuffle` is tested last: before a branch the words would be waited for twice.
    __device__ unsigned operator[](unsigned position) const {
        const unsigned mask = (1u << half_bits) - 1u;
        unsigned x = position;
        do {
            unsigned left = x >> half_bits, right = x & mask;
#pragma unroll
            for (int round = 0; round < ORDER_ROUNDS; ++round) {
                const unsigned next = left ^ (order_mix(right ^ key[round]) & mask);
                left = right;
                right = next;
            }
            x = (left << half_bits) | right;
        } while (x >= n);
        return shuffle ? x : position;
    }
};

// The sample at a position below n.
__device__ inline unsigned order_at(const unsigned* words, unsigned position) { return Order(words)[position]; }
