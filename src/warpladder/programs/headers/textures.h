// Arrays, textures and surfaces: point and linear, one to three axes, layers and cube maps.
#pragma once
#include <map>

#include "api.h"

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat, cudaChannelFormatKindNone
};
struct cudaChannelFormatDesc {
    int x, y, z, w;  // bits
    cudaChannelFormatKind f;
};
enum : unsigned {
    cudaArrayDefault = 0, cudaArrayLayered = 1, cudaArraySurfaceLoadStore = 2, cudaArrayCubemap = 4,
    cudaArrayTextureGather = 8
};
struct cudaArray {
    cudaChannelFormatDesc format;
    cudaExtent size;  // in elements; 0 for an axis that is not there
    unsigned flags, element;
    char* data;
    size_t rows() const { return size.height ? size.height : 1; }
    size_t layers() const { return size.depth ? size.depth : 1; }
    size_t pitch() const { return size.width * element; }
};
using cudaArray_t = cudaArray*;
using cudaArray_const_t = const cudaArray*;
struct cudaMipmappedArray;  // mipmaps.h
using cudaMipmappedArray_t = cudaMipmappedArray*;
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* size, unsigned* flags, cudaArray_t a) {
    if (format) *format = a->format;
    if (size) *size = a->size;
    if (flags) *flags = a->flags;
    return cudaSuccess;
}
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
enum cudaTextureAddressMode {
    cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder
};
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaResourceType {
    cudaResourceTypeArray, cudaResourceTypeMipmappedArray, cudaResourceTypeLinear, cudaResourceTypePitch2D
};
enum cudaResourceViewFormat { cudaResViewFormatNone };
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct { cudaArray_t array; } array;
        struct { cudaMipmappedArray_t mipmap; } mipmap;
        struct { void* devPtr; cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
        struct { void* devPtr; cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
    } res;
};
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaResourceViewDesc {
    cudaResourceViewFormat format;
    size_t width, height, depth;
};
using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace emu {
template <class T> constexpr cudaChannelFormatDesc channels_of() {
    using E = std::remove_cvref_t<decltype([] { if constexpr (requires(T t) { t.x; }) return T{}.x; else return T{};
        }())>;
    constexpr int bits = 8 * sizeof(E), count = int(sizeof(T) / sizeof(E));
    return {bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
        std::is_integral_v<E> ? std::is_signed_v<E> ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned
            : cudaChannelFormatKindFloat};
}
}  // namespace emu
template <class T> constexpr cudaChannelFormatDesc cudaCreateChannelDesc() { return emu::channels_of<T>(); }
inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f}; }

// arrays.cpp
EMU_API cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent size, unsigned flags = 0,
    EMU_HERE);
EMU_API cudaFreeArray(cudaArray_t array, EMU_HERE);
EMU_API emu_memcpy_3d(const cudaMemcpy3DParms& copy, const char* file, int line);
EMU_API emu_create_texture(cudaTextureObject_t* out, const cudaResourceDesc* from, const cudaTextureDesc* how,
    const char* file, int line);
inline cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width,
    size_t height = 0, unsigned flags = 0, EMU_HERE) {
    return cudaMalloc3DArray(array, format, {width, height, 0}, flags, file, line);
}
inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy, EMU_HERE) { return emu_memcpy_3d(*copy, file, line); }
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream = 0, EMU_HERE) {
    return emu::on_stream(stream, "copy", [copy = *copy, file, line] { return emu_memcpy_3d(copy, file, line); });
}
inline cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
    size_t height, cudaMemcpyKind kind, EMU_HERE) {
    return emu_memcpy_host({to->data + y * to->pitch() + x, from, to->pitch(), pitch, width, height, kind, 1,
        "cudaMemcpy2DToArray"}, file, line);
}
inline cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
    size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t = 0, EMU_HERE) {
    return cudaMemcpy2DToArray(to, x, y, from, pitch, width, height, kind, file, line);
}
inline cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, const cudaArray* from, size_t x, size_t y,
    size_t width, size_t height, cudaMemcpyKind kind, EMU_HERE) {
    return emu_memcpy_host({to, from->data + y * from->pitch() + x, pitch, from->pitch(), width, height, kind, 1,
        "cudaMemcpy2DFromArray"}, file, line);
}
inline cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
    cudaMemcpyKind kind, EMU_HERE) {
    return emu_memcpy_host({to->data + y * to->pitch() + x, from, bytes, bytes, bytes, 1, kind, 1,
        "cudaMemcpyToArray"}, file, line);
}
inline cudaError_t cudaMemcpyFromArray(void* to, const cudaArray* from, size_t x, size_t y, size_t bytes,
    cudaMemcpyKind kind, EMU_HERE) {
    return emu_memcpy_host({to, from->data + y * from->pitch() + x, bytes, bytes, bytes, 1, kind, 1,
        "cudaMemcpyFromArray"}, file, line);
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, const cudaArray* array) {
    return *format = array->format, cudaSuccess; }
namespace emu {
struct Described { cudaResourceDesc from; cudaTextureDesc how; };
inline auto& described_textures = *new std::map<cudaTextureObject_t, Described>;
}  // namespace emu
inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* from,
    const cudaTextureDesc* how, const cudaResourceViewDesc* = nullptr, EMU_HERE) {
    cudaError_t error = emu_create_texture(out, from, how, file, line);
    if (error == cudaSuccess) emu::described_textures[*out] = {*from, *how};
    return error;
}
inline cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t texture) {
    auto found = emu::described_textures.find(texture);
    if (found == emu::described_textures.end()) return cudaErrorInvalidValue;
    return *out = found->second.from, cudaSuccess;
}
inline cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t texture) {
    auto found = emu::described_textures.find(texture);
    if (found == emu::described_textures.end()) return cudaErrorInvalidValue;
    return *out = found->second.how, cudaSuccess;
}
inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* out, const cudaResourceDesc* from, EMU_HERE) {
    return emu_create_texture(out, from, nullptr, file, line);
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t) { return cudaSuccess; }
inline cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t) { return cudaSuccess; }

namespace emu {

// A texture or surface: elements of `element` bytes, rows of `pitch` bytes, and how they are read.
struct Texture {
    char* data;
    cudaChannelFormatDesc format;
    int width, height, depth;
    size_t pitch;
    unsigned element;
    cudaTextureDesc how;
    const Texture* levels;  // null without any
    int count;
    size_t layer() const { return pitch * height; }
};
EMU_UNSEEN inline Texture texture_of(unsigned long long handle) { return *reinterpret_cast<Texture*>(handle); }

// Element of an axis with n elements by address mode; -1 outside with a border.
inline int wrapped(int i, int n, cudaTextureAddressMode mode) {
    switch (mode) {
        case cudaAddressModeWrap: return (i % n + n) % n;
        case cudaAddressModeMirror: i = (i % (2 * n) + 2 * n) % (2 * n); return i < n ? i : 2 * n - 1 - i;
        case cudaAddressModeBorder: return i < 0 || i >= n ? -1 : i;
        default: return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

struct Texel { float c[4]; };
inline float channel(const char* at, int bits, cudaChannelFormatKind f, bool normalized) {
    if (f == cudaChannelFormatKindFloat) {
        if (bits == 32) return *reinterpret_cast<const float*>(at);
        return __half2float(*reinterpret_cast<const __half*>(at));
    }
    bool is_signed = f == cudaChannelFormatKindSigned;
    double value = bits == 8 ? is_signed ? *(const signed char*)at : *(const unsigned char*)at
        : bits == 16 ? is_signed ? *(const short*)at : *(const unsigned short*)at
        : is_signed ? *(const int*)at : double(*(const unsigned*)at);
    if (!normalized) return float(value);
    double most = double((1ull << (bits - is_signed)) - 1);
    return float(value / most < -1 ? -1 : value / most);
}
inline Texel texel(const Texture& t, int x, int y, int z) {
    Texel out{};
    x = wrapped(x, t.width, t.how.addressMode[0]), y = wrapped(y, t.height, t.how.addressMode[1]);
    if (x < 0 || y < 0 || z < 0) {
        for (int i = 0; i < 4; ++i) out.c[i] = t.how.borderColor[i];
        return out;
    }
    const char* at = t.data + z * t.layer() + y * t.pitch + size_t(x) * t.element;
    const int bits[4] = {t.format.x, t.format.y, t.format.z, t.format.w};
    for (int i = 0; i < 4 && bits[i]; at += bits[i++] / 8)
        out.c[i] = channel(at, bits[i], t.format.f, t.how.readMode == cudaReadModeNormalizedFloat);
    return out;
}

template <class T> T value_of(const Texel& v) {
    if constexpr (requires(T t) { t.w; }) return T{decltype(T::x)(v.c[0]), decltype(T::x)(v.c[1]),
        decltype(T::x)(v.c[2]),
        decltype(T::x)(v.c[3])};
    else if constexpr (requires(T t) { t.z; }) return T{decltype(T::x)(v.c[0]), decltype(T::x)(v.c[1]),
        decltype(T::x)(v.c[2])};
    else if constexpr (requires(T t) { t.y; }) return T{decltype(T::x)(v.c[0]), decltype(T::x)(v.c[1])};
    else if constexpr (requires(T t) { t.x; }) return T{decltype(T::x)(v.c[0])};
    else return T(v.c[0]);
}

// Number of an axis in texels, and the element below it for a point, or the one below and the fraction, of which a GPU
// has 8 bits.
struct Tap {
    int at;
    float part;
};
inline Tap tap(float x, int n, const cudaTextureDesc& how) {
    if (how.normalizedCoords) x *= float(n);
    if (how.filterMode == cudaFilterModePoint) return {int(floorf(x)), 0};
    float at = floorf(x - 0.5f), part = floorf((x - 0.5f - at) * 256 + 0.5f) / 256;
    return {int(at), part};
}

// axes: those that are filtered; z of a layer is its number.
template <class T> T sampled(unsigned long long handle, float x, float y, float z, int axes, bool layered = false) {
    const Texture t = texture_of(handle);
    if (axes == 1) y = t.how.normalizedCoords ? 0.5f / t.height : 0.5f;
    Tap a = tap(x, t.width, t.how), b = tap(y, t.height, t.how), c{int(z), 0};
    if (axes == 3) c = tap(z, t.depth, t.how);
    auto deep = [&](int at) { return layered || axes < 3 ? wrapped(at, t.depth, cudaAddressModeClamp)
        : wrapped(at, t.depth, t.how.addressMode[2]); };
    if (t.how.filterMode == cudaFilterModePoint && t.how.readMode == cudaReadModeElementType) {
        int i = wrapped(a.at, t.width, t.how.addressMode[0]), j = wrapped(b.at, t.height, t.how.addressMode[1]);
        int k = deep(c.at);
        if (i >= 0 && j >= 0 && k >= 0 && sizeof(T) <= t.element)
            return *reinterpret_cast<const T*>(t.data + k * t.layer() + j * t.pitch + size_t(i) * t.element);
    }
    if (t.how.filterMode == cudaFilterModePoint) return value_of<T>(texel(t, a.at, b.at, deep(c.at)));
    Texel sum{};
    for (int corner = 0; corner < 1 << axes; ++corner) {
        int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
        float weight = (i ? a.part : 1 - a.part) * (axes < 2 ? 1 : j ? b.part : 1 - b.part)
            * (axes < 3 ? 1 : k ? c.part : 1 - c.part);
        if (weight == 0) continue;
        Texel one = texel(t, a.at + i, axes < 2 ? 0 : b.at + j, deep(c.at + k));
        for (int n = 0; n < 4; ++n) sum.c[n] += weight * one.c[n];
    }
    return value_of<T>(sum);
}

// Address of an element of a surface; x in bytes. Outside it is null, or the nearest one.
template <class T> T* element(unsigned long long handle, int x, int y, int z, cudaSurfaceBoundaryMode mode,
    const char* file, int line) {
    const Texture t = texture_of(handle);
    int columns = int(t.width * t.element / sizeof(T)), column = x / int(sizeof(T));
    if (x % int(sizeof(T))) emu_trap("an x of a surface that is no multiple of its element's size: it counts bytes, "
        "so multiply it by sizeof", file, line);
    bool outside = x < 0 || column >= columns || y < 0 || y >= t.height || z < 0 || z >= t.depth;
    if (outside && mode == cudaBoundaryModeTrap) emu_trap("an element outside of a surface", file, line);
    if (outside && mode == cudaBoundaryModeZero) return nullptr;
    if (outside) column = wrapped(column, columns, cudaAddressModeClamp), y = wrapped(y, t.height,
        cudaAddressModeClamp);
    return reinterpret_cast<T*>(t.data + z * t.layer() + y * t.pitch) + column;
}

}  // namespace emu

template <class T> T tex1Dfetch(cudaTextureObject_t t, int i) {
    const emu::Texture texture = emu::texture_of(t);
    if (i < 0 || i >= texture.width) return T{};
    if (texture.how.readMode == cudaReadModeElementType) return reinterpret_cast<const T*>(texture.data)[i];
    return emu::value_of<T>(emu::texel(texture, i, 0, 0));
}
template <class T> T tex1D(cudaTextureObject_t t, float x) { return emu::sampled<T>(t, x, 0, 0, 1); }
template <class T> T tex2D(cudaTextureObject_t t, float x, float y) { return emu::sampled<T>(t, x, y, 0, 2); }
template <class T> T tex3D(cudaTextureObject_t t, float x, float y, float z) { return emu::sampled<T>(t, x, y, z, 3); }
template <class T> T tex1DLayered(cudaTextureObject_t t, float x, int n) { return emu::sampled<T>(t, x, 0, n, 1,
    true); }
template <class T> T tex2DLayered(cudaTextureObject_t t, float x, float y, int n) {
    return emu::sampled<T>(t, x, y, n, 2, true); }
template <class T> void tex1Dfetch(T* out, cudaTextureObject_t t, int i) { *out = tex1Dfetch<T>(t, i); }
template <class T> void tex1D(T* out, cudaTextureObject_t t, float x) { *out = tex1D<T>(t, x); }
template <class T> void tex2D(T* out, cudaTextureObject_t t, float x, float y) { *out = tex2D<T>(t, x, y); }
template <class T> void tex3D(T* out, cudaTextureObject_t t, float x, float y, float z) { *out = tex3D<T>(t, x, y, z); }
// The face of a cube that a direction meets is a layer.
template <class T> T texCubemap(cudaTextureObject_t t, float x, float y, float z) {
    float ax = fabsf(x), ay = fabsf(y), az = fabsf(z), most, s, v;
    int face;
    if (ax >= ay && ax >= az) face = x < 0, most = ax, s = x < 0 ? z : -z, v = -y;
    else if (ay >= az) face = 2 + (y < 0), most = ay, s = x, v = y < 0 ? -z : z;
    else face = 4 + (z < 0), most = az, s = z < 0 ? -x : x, v = -y;
    const emu::Texture texture = emu::texture_of(t);
    float unit = texture.how.normalizedCoords ? 1 : texture.width;
    return emu::sampled<T>(t, (s / most + 1) / 2 * unit, (v / most + 1) / 2 * unit, face, 2, true);
}

#define EMU_BOUNDARY cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, EMU_HERE
template <class T> void surf2Dwrite(T value, cudaSurfaceObject_t s, int x, int y, EMU_BOUNDARY) {
    if (T* at = emu::element<T>(s, x, y, 0, mode, file, line)) *at = value; }
template <class T> T surf2Dread(cudaSurfaceObject_t s, int x, int y, EMU_BOUNDARY) {
    T* at = emu::element<T>(s, x, y, 0, mode, file, line);
    return at ? *at : T{};
}
template <class T> void surf2Dread(T* out, cudaSurfaceObject_t s, int x, int y, EMU_BOUNDARY) {
    *out = surf2Dread<T>(s, x, y, mode, file, line); }
template <class T> void surf1Dwrite(T value, cudaSurfaceObject_t s, int x, EMU_BOUNDARY) {
    surf2Dwrite(value, s, x, 0, mode, file, line); }
template <class T> T surf1Dread(cudaSurfaceObject_t s, int x, EMU_BOUNDARY) {
    return surf2Dread<T>(s, x, 0, mode, file, line); }
template <class T> void surf3Dwrite(T value, cudaSurfaceObject_t s, int x, int y, int z, EMU_BOUNDARY) {
    if (T* at = emu::element<T>(s, x, y, z, mode, file, line)) *at = value; }
template <class T> T surf3Dread(cudaSurfaceObject_t s, int x, int y, int z, EMU_BOUNDARY) {
    T* at = emu::element<T>(s, x, y, z, mode, file, line);
    return at ? *at : T{};
}
template <class T> void surf2DLayeredwrite(T value, cudaSurfaceObject_t s, int x, int y, int layer, EMU_BOUNDARY) {
    surf3Dwrite(value, s, x, y, layer, mode, file, line); }
