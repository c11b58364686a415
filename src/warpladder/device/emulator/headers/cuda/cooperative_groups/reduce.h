// Sums and other reductions over the members of a part of a warp.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T = void> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T = void> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T = void> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T = void> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T = void> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <class G, class T, class F> T reduce(const G& group, T value, F f, EMU_HERE) {
    return emulated::folded<emulated::Fold::all>(group.emu_mask(), value, f, "reduce", file, line);
}

}  // namespace cooperative_groups
