// ReLU and max-pooling by 2 x 2 in one pass: the larger picture's positive part is written nowhere.
#include "index.cuh"

// y[c] = max(0, the largest of the four numbers of x in window c); argmax[c]: which of them it is, 0 to 3, or 4 where
// none is above 0.
// x: (n, channels, h, w), y: (n, channels, h / 2, w / 2) with rest rows and columns left out. One thread for each of
// the `count` windows.
extern "C" __global__ void relu_pool_forward(const float* x, float* y, unsigned char* argmax, long long count, int h,
    int w) {
    const long long c = thread_number();
    if (c >= count) return;
    const int high = h / 2, wide = w / 2;
    const long long image = c / (high * wide);
    const float* at = x + (image * h + c / wide % high * 2) * w + c % wide * 2;
    const float four[4] = {at[0], at[1], at[w], at[w + 1]};
    float best = 0.0f;
    int won = 4;
    for (int i = 0; i < 4; ++i) {
        if (four[i] > best || isnan(four[i])) {
            best = four[i];
            won = i;
        }
    }
    y[c] = best;
    argmax[c] = won;
}

// dx[i] = dy of its window where i won it, 0 for all others. One thread for each of the `count` numbers of dx.
extern "C" __global__ void relu_pool_backward(const float* dy, const unsigned char* argmax, float* dx, long long count,
    int h, int w) {
    const long long i = thread_number();
    if (i >= count) return;
    const int high = h / 2, wide = w / 2, row = i / w % h, column = i % w;
    const long long c = (i / w / h * high + row / 2) * wide + column / 2;
    const bool inside = row / 2 < high && column / 2 < wide;
    dx[i] = inside && argmax[c] == row % 2 * 2 + column % 2 ? dy[c] : 0.0f;
}
