// Sums whose terms threads take in turns.
#pragma once

// Sum number(first) + number(first + turn) + ... below count, in this order. AHEAD numbers are loaded before the first
// is used; a loop that tests each would load one at a time.
template <int AHEAD, class Number>
__device__ __forceinline__ auto sum_in_turns(const Number& number, int first, int turn, int count)
    -> decltype(number(0)) {
    decltype(number(0)) sum{};
    for (int p = first; p < count; p += AHEAD * turn) {
        decltype(number(0)) some[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) some[i] = number(min(p + i * turn, count - 1));
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (p + i * turn < count) sum = sum + some[i];
    }
    return sum;
}
