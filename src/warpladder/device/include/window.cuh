// Windows along one axis: output p reads the elements p * stride - padding + i of an input of `size` elements, i = 0
// ... k - 1. Ranges hold indices of elements that exist, so that no loop tests for the padding.
#pragma once

// Indices first ... last - 1.
struct Range {
    int first, last;
};

// Quotient a / b rounded up, for b > 0; 0 for a < 0.
__device__ inline int ceil_div_from_zero(int a, int b) { return a > 0 ? (a + b - 1) / b : 0; }

// Range of i for which output p reads an element, not the padding.
__device__ inline Range seen_by_output(int p, int size, int k, int stride, int padding) {
    const int corner = p * stride - padding;
    return {corner < 0 ? -corner : 0, corner + k > size ? size - corner : k};
}

// Range of outputs p, out of `outputs`, whose windows hold input element e, at i = e + padding - p * stride.
__device__ inline Range outputs_over(int e, int outputs, int k, int stride, int padding) {
    const int place = e + padding, last = place / stride + 1;
    return {ceil_div_from_zero(place - k + 1, stride), last < outputs ? last : outputs};
}

// Range of outputs p, out of `outputs`, whose window has an element, not the padding, at i.
__device__ inline Range outputs_with(int i, int size, int outputs, int stride, int padding) {
    const int most = size - 1 + padding - i;  // p * stride may not exceed it
    const int last = most < 0 ? 0 : most / stride + 1;
    return {ceil_div_from_zero(padding - i, stride), last < outputs ? last : outputs};
}
