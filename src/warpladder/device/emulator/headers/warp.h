// Warp collectives: every lane of the mask passes a value, and the last one to arrive computes all results.
#pragma once
#include <cstring>
#include <type_traits>

#include "interface.h"

namespace emu {

#ifdef EMU_CHECK
inline int lane() { return emu_thread_linear() & 31; }
#else
inline int lane() { return current->linear & 31; }
#endif

template <class T> inline uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "a lane passes at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> inline T value_of(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> inline T shuffle(unsigned mask, T value, int source, const char* name, const char* file, int line) {
    return value_of<T>(emu_shuffle(mask, bits_of(value), source, name, file, line));
}
template <class T> inline T reduce(unsigned mask, T value, char operation, const char* name, const char* file, int line)
    {
    static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "__reduce_*_sync takes int and unsigned");
    return T(emu_reduce(mask, uint64_t(int64_t(value)), operation, name, file, line));
}

}  // namespace emu

inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_HERE) { emu_sync_warp(mask, file, line); }

// width: the warp is cut into parts of that many lanes; a source outside of a lane's part is the lane itself.
template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMU_HERE) {
    int first = emu::lane() & ~(width - 1);
    return emu::shuffle(mask, value, first + (source & (width - 1)), "__shfl_sync", file, line);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMU_HERE) {
    int lane = emu::lane(), source = lane ^ (bits & 31), end = (lane & ~(width - 1)) + width;
    return emu::shuffle(mask, value, source < end ? source : lane, "__shfl_xor_sync", file, line);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
    int lane = emu::lane(), source = lane + int(delta), end = (lane & ~(width - 1)) + width;
    return emu::shuffle(mask, value, source < end ? source : lane, "__shfl_down_sync", file, line);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
    int lane = emu::lane(), source = lane - int(delta), first = lane & ~(width - 1);
    return emu::shuffle(mask, value, source >= first ? source : lane, "__shfl_up_sync", file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_HERE) {
    return emu_ballot(mask, predicate != 0, "__ballot_sync", file, line); }
inline int __any_sync(unsigned mask, int predicate, EMU_HERE) {
    return emu_ballot(mask, predicate != 0, "__any_sync", file, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, EMU_HERE) {
    return emu_ballot(mask, predicate == 0, "__all_sync", file, line) == 0; }

template <class T> inline unsigned __match_any_sync(unsigned mask, T value, EMU_HERE) {
    return emu_match(mask, emu::bits_of(value), "__match_any_sync", file, line);
}
template <class T> inline unsigned __match_all_sync(unsigned mask, T value, int* all, EMU_HERE) {
    unsigned same = emu_match(mask, emu::bits_of(value), "__match_all_sync", file, line);
    *all = same == mask;
    return *all ? mask : 0;
}

template <class T> inline T __reduce_add_sync(unsigned mask, T v, EMU_HERE) {
    return emu::reduce(mask, v, '+', "__reduce_add_sync", file, line); }
template <class T> inline T __reduce_min_sync(unsigned mask, T v, EMU_HERE) {
    return emu::reduce(mask, v, '<', "__reduce_min_sync", file, line); }
template <class T> inline T __reduce_max_sync(unsigned mask, T v, EMU_HERE) {
    return emu::reduce(mask, v, '>', "__reduce_max_sync", file, line); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned v, EMU_HERE) {
    return emu::reduce(mask, v, '&', "__reduce_and_sync", file, line); }
inline unsigned __reduce_or_sync(unsigned mask, unsigned v, EMU_HERE) {
    return emu::reduce(mask, v, '|', "__reduce_or_sync", file, line); }
inline unsigned __reduce_xor_sync(unsigned mask, unsigned v, EMU_HERE) {
    return emu::reduce(mask, v, '^', "__reduce_xor_sync", file, line); }

// Lanes need not run together; here they do if they can: all that come to the line before anything else can go on.
inline unsigned __activemask(EMU_HERE) { return emu_converged(file, line); }

// Old shuffles without a mask, as before Volta: over the lanes that have not left the kernel. CUDA has removed them.
#define EMU_OLD_SHUFFLE(name, I)                                                              \
    template <class T> inline T name(T value, I by, int width = 32, EMU_HERE) {                \
        return name##_sync(0xffffffffu, value, by, width, file, line);                         \
    }
EMU_OLD_SHUFFLE(__shfl, int)
EMU_OLD_SHUFFLE(__shfl_up, unsigned)
EMU_OLD_SHUFFLE(__shfl_down, unsigned)
EMU_OLD_SHUFFLE(__shfl_xor, int)
#undef EMU_OLD_SHUFFLE
inline unsigned __ballot(int predicate, EMU_HERE) { return __ballot_sync(0xffffffffu, predicate, file, line); }
inline int __any(int predicate, EMU_HERE) { return __any_sync(0xffffffffu, predicate, file, line); }
inline int __all(int predicate, EMU_HERE) { return __all_sync(0xffffffffu, predicate, file, line); }
