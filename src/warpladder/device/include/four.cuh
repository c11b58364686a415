// Four neighbouring floats, by one 16-byte access if all of them exist and are aligned.
#pragma once

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// A ReLU's gradient: g where its output y is above 0, else 0.
__device__ __forceinline__ float relu_gradient(float g, float y) { return y > 0.0f ? g : 0.0f; }
__device__ __forceinline__ float4 relu_gradient(float4 g, float4 y) {
    return make_float4(relu_gradient(g.x, y.x), relu_gradient(g.y, y.y), relu_gradient(g.z, y.z),
        relu_gradient(g.w, y.w));
}

// The first `count` of four (any number; none below 1, all from 4 on). `wide`: the address is a multiple of 16 bytes.
__device__ __forceinline__ void store_four(float* target, float4 value, int count, bool wide) {
    if (wide && count >= 4) {
        *reinterpret_cast<float4*>(target) = value;
        return;
    }
    if (count > 0) target[0] = value.x;
    if (count > 1) target[1] = value.y;
    if (count > 2) target[2] = value.z;
    if (count > 3) target[3] = value.w;
}

// Likewise for reading; 0 beyond `count`.
__device__ __forceinline__ float4 load_four(const float* source, int count, bool wide) {
    if (wide && count >= 4) return *reinterpret_cast<const float4*>(source);
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (count > 0) value.x = source[0];
    if (count > 1) value.y = source[1];
    if (count > 2) value.z = source[2];
    if (count > 3) value.w = source[3];
    return value;
}
