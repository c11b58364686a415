// Arrays between the kernels of a chain of one or two thin linear layers and cross-entropy.
//
//   x = scale * source[row]     z = W1 x + b1     one layer: logits = z     two layers: h = max(z, 0), logits = W2 h +
// b2
//
// w1: (WIDTH, inputs), b1: (WIDTH,), w2: (OUT, HIDDEN), b2: (OUT,). WIDTH, the first layer's outputs, is HIDDEN where
// there are two layers (HIDDEN > 0) and OUT where there is one. g: (n, PITCH), of each sample the gradient by z, and
// zeros up to a multiple of 16 bytes. small: (rows, COUNT), sums over some samples each: of g, which make db1; with two
// layers of the gradient by the logits, db2, and of its products with h, dw2. With a row for each sample, those of one
// layer are g's.
#pragma once

template <int HIDDEN, int OUT>
struct Chain {
    static constexpr int WIDTH = HIDDEN > 0 ? HIDDEN : OUT, PITCH = (WIDTH + 3) / 4 * 4;
    static constexpr int COUNT = HIDDEN > 0 ? HIDDEN + OUT + HIDDEN * OUT : OUT;
};
