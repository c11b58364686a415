// Two halfwords or four bytes of a word at once, and the sums, largest and smallest of dynamic programming.
#pragma once
#include "bits.h"

namespace emu {

// f(a, b, least, most) for the lanes of two words; T: a lane's type, whose range is least to most.
template <class T, class F> unsigned by_lanes(unsigned a, unsigned b, F f) {
    unsigned out = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(T))
        out |= unsigned(std::make_unsigned_t<T>(f(int(T(a >> at)), int(T(b >> at)), int(std::numeric_limits<T>::min()),
            int(std::numeric_limits<T>::max())))) << at;
    return out;
}
inline int within(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

}  // namespace emu

#define EMU_SIMD_OF(name, T, ...)                                                                \
    inline unsigned name(unsigned x, unsigned y) {                                               \
        return emu::by_lanes<T>(x, y, [](int a, int b, [[maybe_unused]] int least, [[maybe_unused]] int most) { \
            return __VA_ARGS__;                                                                  \
        });                                                                                      \
    }
#define EMU_SIMD(name, sign, ...)              \
    EMU_SIMD_OF(name##2, sign##16_t, __VA_ARGS__) \
    EMU_SIMD_OF(name##4, sign##8_t, __VA_ARGS__)
#define EMU_SIMD_ONE(name, ...)                                                                                    \
    inline unsigned name##2(unsigned x) {                                                                          \
        return emu::by_lanes<int16_t>(x, 0, [](int a, int, int, [[maybe_unused]] int most) { return __VA_ARGS__; }); \
    }                                                                                                              \
    inline unsigned name##4(unsigned x) {                                                                          \
        return emu::by_lanes<int8_t>(x, 0, [](int a, int, int, [[maybe_unused]] int most) { return __VA_ARGS__; });  \
    }
#define EMU_SIMD_COMPARED(name, sign, operation)     \
    EMU_SIMD(__vcmp##name, sign, a operation b ? -1 : 0) \
    EMU_SIMD(__vset##name, sign, a operation b)
#define EMU_SIMD_SUMMED(name, sign)                                                       \
    inline unsigned __vsad##name##2(unsigned x, unsigned y) {                             \
        unsigned d = emu::by_lanes<sign##16_t>(x, y, [](int a, int b, int, int) { return a > b ? a - b : b - a; }); \
        return (d & 0xffff) + (d >> 16);                                                  \
    }                                                                                     \
    inline unsigned __vsad##name##4(unsigned x, unsigned y) {                             \
        unsigned d = emu::by_lanes<sign##8_t>(x, y, [](int a, int b, int, int) { return a > b ? a - b : b - a; }); \
        return (d & 255) + (d >> 8 & 255) + (d >> 16 & 255) + (d >> 24);                  \
    }
EMU_SIMD_ONE(__vabs, a < 0 ? -a : a)
EMU_SIMD_ONE(__vabsss, a < 0 ? (-a > most ? most : -a) : a)
EMU_SIMD_ONE(__vneg, -a)
EMU_SIMD_ONE(__vnegss, -a > most ? most : -a)
EMU_SIMD(__vadd, int, a + b)
EMU_SIMD(__vaddss, int, emu::within(a + b, least, most))
EMU_SIMD(__vaddus, uint, emu::within(a + b, least, most))
EMU_SIMD(__vsub, int, a - b)
EMU_SIMD(__vsubss, int, emu::within(a - b, least, most))
EMU_SIMD(__vsubus, uint, emu::within(a - b, least, most))
EMU_SIMD(__vabsdiffs, int, a > b ? a - b : b - a)
EMU_SIMD(__vabsdiffu, uint, a > b ? a - b : b - a)
EMU_SIMD(__vavgs, int, (a + b + (a + b >= 0)) >> 1)
EMU_SIMD(__vavgu, uint, (a + b + 1) >> 1)
EMU_SIMD(__vhaddu, uint, (a + b) >> 1)
EMU_SIMD(__vmaxs, int, a > b ? a : b)
EMU_SIMD(__vmaxu, uint, a > b ? a : b)
EMU_SIMD(__vmins, int, a < b ? a : b)
EMU_SIMD(__vminu, uint, a < b ? a : b)
EMU_SIMD_COMPARED(eq, int, ==)
EMU_SIMD_COMPARED(ne, int, !=)
EMU_SIMD_COMPARED(ges, int, >=)
EMU_SIMD_COMPARED(gts, int, >)
EMU_SIMD_COMPARED(les, int, <=)
EMU_SIMD_COMPARED(lts, int, <)
EMU_SIMD_COMPARED(geu, uint, >=)
EMU_SIMD_COMPARED(gtu, uint, >)
EMU_SIMD_COMPARED(leu, uint, <=)
EMU_SIMD_COMPARED(ltu, uint, <)
EMU_SIMD_SUMMED(s, int)
EMU_SIMD_SUMMED(u, uint)

// Dynamic programming: sums and the larger or smaller number, also cut off at zero (relu). A sum wraps.
#define EMU_STEP(name, better, T, word, lanes) \
    inline word __viadd##name##lanes(word a, word b, word c) { \
        return emu::stepped<T>(a, b, c, emu::better{}, false); } \
    inline word __vi##name##3##lanes(word a, word b, word c) { \
        return emu::stepped<T>(word(emu::stepped<T>(a, word(0), b, emu::better{}, false)), word(0), c, emu::better{}, \
            false); \
    }
#define EMU_STEP_RELU(name, better, T, word, lanes) \
    inline word __viadd##name##lanes##_relu(word a, word b, word c) { \
        return emu::stepped<T>(a, b, c, emu::better{}, true); } \
    inline word __vi##name##lanes##_relu(word a, word b) { \
        return emu::stepped<T>(a, word(0), b, emu::better{}, true); } \
    inline word __vi##name##3##lanes##_relu(word a, word b, word c) { \
        return emu::stepped<T>(word(emu::stepped<T>(a, word(0), b, emu::better{}, false)), word(0), c, emu::better{}, \
            true); \
    }
namespace emu {

struct Larger { template <class T> T operator()(T a, T b) const { return a > b ? a : b; } };
struct Smaller { template <class T> T operator()(T a, T b) const { return a < b ? a : b; } };
// better(a + b, c) for each lane of type T, at least 0 with relu.
template <class T, class Better> unsigned stepped(unsigned a, unsigned b, unsigned c, Better better, bool relu) {
    unsigned out = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(T)) {
        T best = better(T((a >> at) + (b >> at)), T(c >> at));
        out |= unsigned(std::make_unsigned_t<T>(relu && best < T(0) ? T(0) : best)) << at;
    }
    return out;
}

}  // namespace emu
EMU_STEP(max, Larger, int, int, _s32)
EMU_STEP(min, Smaller, int, int, _s32)
EMU_STEP(max, Larger, unsigned, unsigned, _u32)
EMU_STEP(min, Smaller, unsigned, unsigned, _u32)
EMU_STEP(max, Larger, int16_t, unsigned, _s16x2)
EMU_STEP(min, Smaller, int16_t, unsigned, _s16x2)
EMU_STEP(max, Larger, uint16_t, unsigned, _u16x2)
EMU_STEP(min, Smaller, uint16_t, unsigned, _u16x2)
EMU_STEP_RELU(max, Larger, int, int, _s32)
EMU_STEP_RELU(min, Smaller, int, int, _s32)
EMU_STEP_RELU(max, Larger, int16_t, unsigned, _s16x2)
EMU_STEP_RELU(min, Smaller, int16_t, unsigned, _s16x2)
inline int __vibmax_s32(int a, int b, bool* is_first) { return (*is_first = a >= b) ? a : b; }
inline int __vibmin_s32(int a, int b, bool* is_first) { return (*is_first = a <= b) ? a : b; }
inline unsigned __vibmax_u32(unsigned a, unsigned b, bool* is_first) { return (*is_first = a >= b) ? a : b; }
inline unsigned __vibmin_u32(unsigned a, unsigned b, bool* is_first) { return (*is_first = a <= b) ? a : b; }
// The larger or smaller of each halfword, and whether the first word had it (equal ones count).
#define EMU_WHICH(name, T, better) \
    inline unsigned name(unsigned a, unsigned b, bool* high, bool* low) { \
        T a1 = T(a >> 16), a0 = T(a), b1 = T(b >> 16), b0 = T(b); \
        *high = a1 better b1, *low = a0 better b0; \
        return unsigned(uint16_t(*high ? a1 : b1)) << 16 | uint16_t(*low ? a0 : b0); \
    }
EMU_WHICH(__vibmax_s16x2, int16_t, >=)
EMU_WHICH(__vibmin_s16x2, int16_t, <=)
EMU_WHICH(__vibmax_u16x2, uint16_t, >=)
EMU_WHICH(__vibmin_u16x2, uint16_t, <=)
#undef EMU_WHICH
#undef EMU_SIMD
#undef EMU_SIMD_OF
#undef EMU_SIMD_ONE
#undef EMU_SIMD_COMPARED
#undef EMU_SIMD_SUMMED
#undef EMU_STEP
#undef EMU_STEP_RELU
