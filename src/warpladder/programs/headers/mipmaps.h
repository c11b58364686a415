// Arrays of levels, each half as large as the one before, and textures that read them.
#pragma once
#include "textures.h"

EMU_API cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* format, cudaExtent size,
    unsigned levels, unsigned flags = 0, EMU_HERE);
EMU_API cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_t array, unsigned number);
EMU_API cudaFreeMipmappedArray(cudaMipmappedArray_t array, EMU_HERE);

namespace emu {

template <class T> T mixed(T a, T b, float part) {
    if constexpr (requires { a.x; }) {
        using E = decltype(a.x);
        for (size_t i = 0; i < sizeof(T) / sizeof(E); ++i) (&a.x)[i] += E(part * ((&b.x)[i] - (&a.x)[i]));
        return a;
    } else return T(a + part * (b - a));
}

// What `read` gets of the level, or of the two next to it.
template <class F> auto of_level(cudaTextureObject_t handle, float level, F read) {
    const Texture t = texture_of(handle);
    if (!t.levels) return read(handle);
    level = fminf(fmaxf(level + t.how.mipmapLevelBias, t.how.minMipmapLevelClamp), t.how.maxMipmapLevelClamp);
    level = fminf(fmaxf(level, 0), float(t.count - 1));
    auto at = [&](int number) { return read(cudaTextureObject_t(t.levels + number)); };
    if (t.how.mipmapFilterMode == cudaFilterModePoint) return at(int(floorf(level + 0.5f)));
    int below = int(floorf(level));
    float part = floorf((level - below) * 256 + 0.5f) / 256;
    return part == 0 ? at(below) : mixed(at(below), at(below + 1 < t.count ? below + 1 : below), part);
}

// Level at which a step of one pixel is one texel.
inline float level_of(cudaTextureObject_t handle, float2 dx, float2 dy) {
    const Texture t = texture_of(handle);
    float width = t.how.normalizedCoords ? t.width : 1, height = t.how.normalizedCoords ? t.height : 1;
    float across = hypotf(dx.x * width, dx.y * height), down = hypotf(dy.x * width, dy.y * height);
    return log2f(fmaxf(across, down));
}

}  // namespace emu

template <class T> T tex1DLod(cudaTextureObject_t t, float x, float level) {
    return emu::of_level(t, level, [=](cudaTextureObject_t at) { return tex1D<T>(at, x); }); }
template <class T> T tex2DLod(cudaTextureObject_t t, float x, float y, float level) {
    return emu::of_level(t, level, [=](cudaTextureObject_t at) { return tex2D<T>(at, x, y); }); }
template <class T> T tex3DLod(cudaTextureObject_t t, float x, float y, float z, float level) {
    return emu::of_level(t, level, [=](cudaTextureObject_t at) { return tex3D<T>(at, x, y, z); }); }
template <class T> T tex1DGrad(cudaTextureObject_t t, float x, float dx, float dy) {
    return tex1DLod<T>(t, x, emu::level_of(t, make_float2(dx, 0), make_float2(dy, 0))); }
template <class T> T tex2DGrad(cudaTextureObject_t t, float x, float y, float2 dx, float2 dy) {
    return tex2DLod<T>(t, x, y, emu::level_of(t, dx, dy)); }
