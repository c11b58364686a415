// Texture references, which CUDA had up to version 11: global variables that are bound to an array or to memory. Only
// for programs that declare one: others may name something `texture`.
#pragma once
#include "textures.h"

enum {
    cudaTextureType1D = 1, cudaTextureType2D = 2, cudaTextureType3D = 3, cudaTextureTypeCubemap = 12,
    cudaTextureType1DLayered = 241, cudaTextureType2DLayered = 242
};
struct textureReference {
    int normalized;
    cudaTextureFilterMode filterMode;
    cudaTextureAddressMode addressMode[3];
    cudaChannelFormatDesc channelDesc;
    int sRGB = 0;
    mutable cudaTextureObject_t emu_object = 0;  // what it is bound to, as a texture object
};
template <class T, int axes = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture : textureReference {
    texture(int normalized = 0, cudaTextureFilterMode filter = cudaFilterModePoint,
        cudaTextureAddressMode address = cudaAddressModeClamp)
        : textureReference{normalized, filter, {address, address, address}, emu::channels_of<T>()} {}
    texture(int normalized, cudaTextureFilterMode filter, cudaTextureAddressMode address, cudaChannelFormatDesc format)
        : textureReference{normalized, filter, {address, address, address}, format} {}
};

namespace emu {

// Type of what a reference gives: its elements, or floats from -1 or 0 to 1.
template <class T, cudaTextureReadMode mode> struct FetchedOf { using type = T; };
template <class T> struct FetchedOf<T, cudaReadModeNormalizedFloat> {
    static constexpr cudaChannelFormatDesc format = channels_of<T>();
    using type = std::conditional_t<format.w != 0, float4, std::conditional_t<format.y != 0, float2, float>>;
};
template <class T, cudaTextureReadMode mode> using Fetched = typename FetchedOf<T, mode>::type;

template <class T, int axes, cudaTextureReadMode mode>
cudaError_t bind(const texture<T, axes, mode>& t, const cudaResourceDesc& from, const char* file, int line) {
    cudaTextureDesc how{};
    for (int i = 0; i < 3; ++i) how.addressMode[i] = t.addressMode[i];
    how.filterMode = t.filterMode, how.readMode = mode, how.normalizedCoords = t.normalized, how.sRGB = t.sRGB;
    return emu_create_texture(&t.emu_object, &from, &how, file, line);
}
EMU_UNSEEN inline cudaTextureObject_t bound(const textureReference& t, const char* file, int line) {
    if (!t.emu_object) emu_trap("a texture reference that nothing is bound to", file, line);
    return t.emu_object;
}

}  // namespace emu

#define EMU_TEXTURE template <class T, int axes, cudaTextureReadMode mode>
#define EMU_REFERENCE const texture<T, axes, mode>& t
EMU_TEXTURE cudaError_t cudaBindTexture(size_t* offset, EMU_REFERENCE, const void* memory,
    const cudaChannelFormatDesc& format, size_t bytes = UINT_MAX, EMU_HERE) {
    cudaResourceDesc from{cudaResourceTypeLinear, {}};
    from.res.linear = {const_cast<void*>(memory), format, std::min<size_t>(bytes, INT_MAX)};
    if (offset) *offset = 0;
    return emu::bind(t, from, file, line);
}
EMU_TEXTURE cudaError_t cudaBindTexture(size_t* offset, EMU_REFERENCE, const void* memory, size_t bytes = UINT_MAX,
    EMU_HERE) { return cudaBindTexture(offset, t, memory, t.channelDesc, bytes, file, line); }
EMU_TEXTURE cudaError_t cudaBindTexture2D(size_t* offset, EMU_REFERENCE, const void* memory,
    const cudaChannelFormatDesc& format, size_t width, size_t height, size_t pitch, EMU_HERE) {
    cudaResourceDesc from{cudaResourceTypePitch2D, {}};
    from.res.pitch2D = {const_cast<void*>(memory), format, width, height, pitch};
    if (offset) *offset = 0;
    return emu::bind(t, from, file, line);
}
EMU_TEXTURE cudaError_t cudaBindTexture2D(size_t* offset, EMU_REFERENCE, const void* memory, size_t width,
    size_t height, size_t pitch, EMU_HERE) {
    return cudaBindTexture2D(offset, t, memory, t.channelDesc, width, height, pitch, file, line);
}
EMU_TEXTURE cudaError_t cudaBindTextureToArray(EMU_REFERENCE, cudaArray_const_t array, EMU_HERE) {
    cudaResourceDesc from{cudaResourceTypeArray, {}};
    from.res.array = {const_cast<cudaArray_t>(array)};
    return emu::bind(t, from, file, line);
}
EMU_TEXTURE cudaError_t cudaBindTextureToArray(EMU_REFERENCE, cudaArray_const_t array, const cudaChannelFormatDesc&,
    EMU_HERE) { return cudaBindTextureToArray(t, array, file, line); }
EMU_TEXTURE cudaError_t cudaUnbindTexture(EMU_REFERENCE) { return t.emu_object = 0, cudaSuccess; }
EMU_TEXTURE cudaError_t cudaGetTextureAlignmentOffset(size_t* offset, EMU_REFERENCE) {
    return *offset = 0, cudaSuccess; }

#define EMU_FETCHED EMU_TEXTURE emu::Fetched<T, mode>
#define EMU_FETCH(function, ...) { \
    return function<emu::Fetched<T, mode>>(emu::bound(t, file, line), __VA_ARGS__); }
EMU_FETCHED tex1Dfetch(EMU_REFERENCE, int i, EMU_HERE) EMU_FETCH(tex1Dfetch, i)
EMU_FETCHED tex1D(EMU_REFERENCE, float x, EMU_HERE) EMU_FETCH(tex1D, x)
EMU_FETCHED tex2D(EMU_REFERENCE, float x, float y, EMU_HERE) EMU_FETCH(tex2D, x, y)
EMU_FETCHED tex3D(EMU_REFERENCE, float x, float y, float z, EMU_HERE) EMU_FETCH(tex3D, x, y, z)
EMU_FETCHED tex1DLayered(EMU_REFERENCE, float x, int layer, EMU_HERE) EMU_FETCH(tex1DLayered, x, layer)
EMU_FETCHED tex2DLayered(EMU_REFERENCE, float x, float y, int layer, EMU_HERE) EMU_FETCH(tex2DLayered, x, y, layer)
EMU_FETCHED texCubemap(EMU_REFERENCE, float x, float y, float z, EMU_HERE) EMU_FETCH(texCubemap, x, y, z)
