// Prefix sums over the members of a part of a warp.
#pragma once
#include "reduce.h"

namespace cooperative_groups {

template <class G, class T, class F> T inclusive_scan(const G& group, T value, F f, EMU_HERE) {
    return emulated::folded<emulated::Fold::inclusive>(group.emu_mask(), value, f, "inclusive_scan", file, line);
}
template <class G, class T> T inclusive_scan(const G& group, T value, EMU_HERE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}
// The first member gets T{}.
template <class G, class T, class F> T exclusive_scan(const G& group, T value, F f, EMU_HERE) {
    return emulated::folded<emulated::Fold::exclusive>(group.emu_mask(), value, f, "exclusive_scan", file, line);
}
template <class G, class T> T exclusive_scan(const G& group, T value, EMU_HERE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}

}  // namespace cooperative_groups
