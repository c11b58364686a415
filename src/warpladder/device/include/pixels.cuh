// Stored samples, bytes or floats, several neighbours with one load.
#pragma once

// A byte in bits 16 to 23 of a word is, as a float, exactly byte * 2^-133: one instruction, while the value costs two.
// A weight that multiplies such a byte is UP times as large, to stay in range, and the sum is multiplied by BACK.
// Floats stay unchanged.
template <class Pixel>
struct Faint {
    static constexpr float UP = sizeof(Pixel) == 1 ? 0x1p66f : 1.0f, BACK = sizeof(Pixel) == 1 ? 0x1p67f : 1.0f;
};

// N neighbouring numbers as in memory: at most 16 bytes, at a multiple of their size.
template <class Pixel, int N>
struct Pixels {
    static constexpr int BYTES = N * static_cast<int>(sizeof(Pixel));
    static_assert(BYTES <= 16 && (BYTES & (BYTES - 1)) == 0, "one load");
    unsigned word[BYTES < 4 ? 1 : BYTES / 4];

    __device__ __forceinline__ void load(const Pixel* from) {
        if constexpr (BYTES == 16) {
            const uint4 all = *reinterpret_cast<const uint4*>(from);
            word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
        } else if constexpr (BYTES == 8) {
            const uint2 both = *reinterpret_cast<const uint2*>(from);
            word[0] = both.x, word[1] = both.y;
        } else if constexpr (BYTES == 4) {
            word[0] = *reinterpret_cast<const unsigned*>(from);
        } else if constexpr (BYTES == 2) {
            word[0] = *reinterpret_cast<const unsigned short*>(from);
        } else {
            word[0] = *reinterpret_cast<const unsigned char*>(from);
        }
    }

    __device__ __forceinline__ void store(Pixel* to) const {
        if constexpr (BYTES == 16) *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
        else if constexpr (BYTES == 8) *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
        else if constexpr (BYTES == 4) *reinterpret_cast<unsigned*>(to) = word[0];
        else if constexpr (BYTES == 2) *reinterpret_cast<unsigned short*>(to) = word[0];
        else *reinterpret_cast<unsigned char*>(to) = word[0];
    }

    // Floats only.
    __device__ __forceinline__ void set(int e, float value) { word[e] = __float_as_uint(value); }

    // Number e as a float. 2^23 with a byte in its last bits is 2^23 + byte: two fast instructions, no conversion.
    __device__ __forceinline__ float operator[](int e) const {
        if constexpr (sizeof(Pixel) == 4) return __uint_as_float(word[e]);
        else return __uint_as_float(__byte_perm(word[e / 4], 0x4B000000u, 0x7650u + e % 4)) - 8388608.0f;
    }

    // Number e in the form of `Faint`.
    __device__ __forceinline__ float faint(int e) const {
        if constexpr (sizeof(Pixel) == 4) return __uint_as_float(word[e]);
        else return __uint_as_float(__byte_perm(word[e / 4], 0u, 0x4044u + e % 4 * 0x100u));
    }
};
