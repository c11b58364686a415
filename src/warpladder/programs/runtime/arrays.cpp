// Arrays, which are memory of the device in rows, and the descriptions of textures that kernels read them by.
#include "../headers/mipmaps.h"
#include "host.h"

EMU_API cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent size, unsigned flags,
    const char* file, int line) {
    unsigned element = unsigned(format->x + format->y + format->z + format->w) / 8;
    auto* made = new cudaArray{*format, size, flags, element, nullptr};
    cudaError_t error = emu_malloc((void**)&made->data, made->pitch() * made->rows() * made->layers(),
        cudaMemoryTypeDevice, {"an array", element}, file, line);
    if (error != cudaSuccess) return error;
    *array = made;
    return cudaSuccess;
}
EMU_API cudaFreeArray(cudaArray_t array, const char* file, int line) {
    return array ? cudaFree(array->data, file, line) : cudaSuccess; }

struct cudaMipmappedArray { std::vector<cudaArray_t> levels; };
EMU_API cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* format, cudaExtent size,
    unsigned levels, unsigned flags, const char* file, int line) {
    auto* made = new cudaMipmappedArray;
    const size_t longest = std::max({size.width, size.height, flags & cudaArrayLayered ? 0 : size.depth});
    auto half = [](size_t axis, unsigned level) { return axis ? std::max<size_t>(axis >> level, 1) : 0; };
    for (unsigned level = 0; !level || (level < levels && longest >> level); ++level) {
        made->levels.push_back(nullptr);
        cudaExtent its{half(size.width, level), half(size.height, level),
            flags & cudaArrayLayered ? size.depth : half(size.depth, level)};
        cudaError_t error = cudaMalloc3DArray(&made->levels.back(), format, its, flags, file, line);
        if (error != cudaSuccess) return error;
    }
    return *array = made, cudaSuccess;
}
EMU_API cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_t array, unsigned number) {
    if (!array || number >= array->levels.size()) return failed(cudaErrorInvalidValue);
    return *level = array->levels[number], returned(cudaSuccess);
}
EMU_API cudaFreeMipmappedArray(cudaMipmappedArray_t array, const char* file, int line) {
    for (size_t i = 0; array && i < array->levels.size(); ++i)
        if (cudaError_t error = cudaFreeArray(array->levels[i], file, line)) return error;
    return returned(cudaSuccess);
}

namespace emu {
// The texture of an array, read as `how` says.
static Texture texture_over(const cudaArray& a, const cudaTextureDesc& how) {
    Texture t{};
    t.how = how, t.data = a.data, t.format = a.format, t.width = int(a.size.width), t.height = int(a.rows());
    t.depth = int(a.layers()), t.pitch = a.pitch(), t.element = a.element;
    return t;
}

// A side of a copy: its first byte, and bytes of a row and of a layer. Positions in an array count elements.
struct Box {
    char* first;
    size_t pitch, layer;
};
static Box box(const cudaArray* array, cudaPos at, const cudaPitchedPtr& memory) {
    size_t pitch = array ? array->pitch() : memory.pitch, rows = array ? array->rows() : memory.ysize;
    size_t x = array ? at.x * array->element : at.x;
    return {(array ? array->data : (char*)memory.ptr) + at.z * pitch * rows + at.y * pitch + x, pitch, pitch * rows};
}
}  // namespace emu

EMU_API emu_memcpy_3d(const cudaMemcpy3DParms& c, const char* file, int line) {
    Box to = box(c.dstArray, c.dstPos, c.dstPtr), from = box(c.srcArray, c.srcPos, c.srcPtr);
    const cudaArray* array = c.srcArray ? c.srcArray : c.dstArray;
    size_t width = c.extent.width * (array ? array->element : 1);
    for (size_t z = 0; z < c.extent.depth; ++z) {
        cudaError_t error = emu_memcpy_host({to.first + z * to.layer, from.first + z * from.layer, to.pitch, from.pitch,
            width, c.extent.height, c.kind, 1, "cudaMemcpy3D"}, file, line);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

EMU_API emu_create_texture(cudaTextureObject_t* out, const cudaResourceDesc* from, const cudaTextureDesc* how,
    const char* file, int line) {
    Lock lock;
    Texture t{};
    if (how) t.how = *how;
    for (auto& mode : t.how.addressMode)  // only normalized coordinates wrap
        if (!t.how.normalizedCoords && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror))
            mode = cudaAddressModeClamp;
    auto bytes = [](const cudaChannelFormatDesc& f) { return unsigned(f.x + f.y + f.z + f.w) / 8; };
    switch (from->resType) {
        case cudaResourceTypeArray: t = texture_over(*from->res.array.array, t.how); break;
        case cudaResourceTypeMipmappedArray: {
            auto& arrays = from->res.mipmap.mipmap->levels;
            auto* levels = new std::vector<Texture>;
            for (cudaArray_t each : arrays) levels->push_back(texture_over(*each, t.how));
            t = levels->front(), t.levels = levels->data(), t.count = int(levels->size());
            break;
        }
        case cudaResourceTypeLinear: {
            auto& l = from->res.linear;
            t.data = (char*)l.devPtr, t.format = l.desc, t.element = bytes(l.desc);
            t.width = int(l.sizeInBytes / t.element), t.height = t.depth = 1, t.pitch = l.sizeInBytes;
            break;
        }
        case cudaResourceTypePitch2D: {
            auto& p = from->res.pitch2D;
            t.data = (char*)p.devPtr, t.format = p.desc, t.element = bytes(p.desc), t.width = int(p.width);
            t.height = int(p.height), t.depth = 1, t.pitch = p.pitchInBytes;
            break;
        }
        default: return failed(cudaErrorNotSupported);
    }
    if (!find(t.data)) {
        report("problem", "host pointer", "the texture made at {0} is over a pointer of the host", "", {file, line});
        return failed(cudaErrorInvalidValue);
    }
    bool is_float = t.format.f == cudaChannelFormatKindFloat || t.how.readMode == cudaReadModeNormalizedFloat;
    if (t.how.filterMode == cudaFilterModeLinear && !is_float && from->resType != cudaResourceTypeLinear) {
        report("problem", "handle", "the texture made at {0} is filtered linearly and gives whole numbers, which no "
            "GPU does", "", {file, line});
        return failed(cudaErrorInvalidFilterSetting);
    }
    *out = (unsigned long long)new Texture(t);
    return returned(cudaSuccess);
}
