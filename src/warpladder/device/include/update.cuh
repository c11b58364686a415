// Optimizer's step over flat arrays, for the kernels of every optimizer's step.cu.
#pragma once
#include "index.cuh"
#include "nan.cuh"

// Numbers of one step: a row of the host's table, in the layout of the optimizer's numbers().
struct Numbers {
    float4 low, high;

    // at: null if all steps have the same row; else the number of the next step of the epoch.
    __device__ __forceinline__ Numbers(const float4* table, const int* at) {
        const float4* row = at == nullptr ? table : table + 2 * (*at - 1);
        low = row[0];
        high = row[1];
    }
};

// One parameter for each thread. w, g, first, second: (count,), the last two may be null; limit: infinity for no clip.
template <class Rule>
__device__ __forceinline__ void update_one(float* w, const float* g, float* first, float* second, long long count,
    float limit, const float4* table, const int* at) {
    const long long i = thread_number();
    if (i >= count) return;
    const Rule rule(Numbers(table, at));
    float weight = w[i], a = first != nullptr ? first[i] : 0.0f, b = second != nullptr ? second[i] : 0.0f;
    rule.step(weight, clip(g[i], limit), a, b);
    w[i] = weight;
    if (first != nullptr) first[i] = a;
    if (second != nullptr) second[i] = b;
}

// Four parameters for each thread: 16 bytes at a time, by a quarter of the threads. Arrays: (4 * count,).
template <class Rule>
__device__ __forceinline__ void update_four(float4* w, const float4* g, float4* first, float4* second, long long count,
    float limit, const float4* table, const int* at) {
    const long long i = thread_number();
    if (i >= count) return;
    float4 weight = w[i], a = make_float4(0.0f, 0.0f, 0.0f, 0.0f), b = a;
    const float4 gradient = g[i];
    if (first != nullptr) a = first[i];
    if (second != nullptr) b = second[i];
    const Rule rule(Numbers(table, at));
    rule.step(weight.x, clip(gradient.x, limit), a.x, b.x);
    rule.step(weight.y, clip(gradient.y, limit), a.y, b.y);
    rule.step(weight.z, clip(gradient.z, limit), a.z, b.z);
    rule.step(weight.w, clip(gradient.w, limit), a.w, b.w);
    w[i] = weight;
    if (first != nullptr) first[i] = a;
    if (second != nullptr) second[i] = b;
}
