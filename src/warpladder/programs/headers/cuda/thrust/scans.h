// Algorithms of Thrust whose result at a place follows from others: scans, runs of equal keys, searches, merges, sets.
#pragma once
#include "algorithms.h"

namespace thrust {

EMU_THRUST(inclusive_scan, (class I, class O, class F = std::plus<>), (I first, I last, O out, F g = F()),
    return out + EMU_RUN(inclusive_scan, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::inclusive(f, l, std::identity(), o, g); });)
EMU_THRUST(transform_inclusive_scan, (class I, class O, class U, class F), (I first, I last, O out, U u, F g),
    return out + EMU_RUN(transform_inclusive_scan, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::inclusive(f, l, u, o, g); });)
EMU_THRUST(exclusive_scan, (class I, class O, class V, class F = std::plus<>),
    (I first, I last, O out, V from, F g = F()),
    return out + EMU_RUN(exclusive_scan, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::exclusive(f, l, std::identity(), o, from, g); });)
EMU_THRUST(exclusive_scan, (class I, class O), (I first, I last, O out),
    return exclusive_scan(policy, first, last, out, value_of<I>(), std::plus<>(), file, line);)
EMU_THRUST(transform_exclusive_scan, (class I, class O, class U, class V, class F),
    (I first, I last, O out, U u, V from, F g),
    return out + EMU_RUN(transform_exclusive_scan, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::exclusive(f, l, u, o, from, g); });)
EMU_THRUST(inclusive_scan_by_key, (class K, class I, class O, class E = std::equal_to<>, class F = std::plus<>),
    (K first, K last, I values, O out, E same = E(), F g = F()),
    return out + EMU_RUN(inclusive_scan_by_key, (first, last, values, out), [=](auto f, auto l, auto v, auto o) {
        return loops::inclusive_by_key(f, l, v, o, same, g); });)
EMU_THRUST(exclusive_scan_by_key, (class K, class I, class O, class V, class E = std::equal_to<>,
    class F = std::plus<>), (K first, K last, I values, O out, V from, E same = E(), F g = F()),
    return out + EMU_RUN(exclusive_scan_by_key, (first, last, values, out), [=](auto f, auto l, auto v, auto o) {
        return loops::exclusive_by_key(f, l, v, o, from, same, g); });)
EMU_THRUST(exclusive_scan_by_key, (class K, class I, class O), (K first, K last, I values, O out),
    return exclusive_scan_by_key(policy, first, last, values, out, value_of<I>(), std::equal_to<>(), std::plus<>(),
        file, line);)
EMU_THRUST(reduce_by_key, (class K, class I, class KO, class O, class E = std::equal_to<>, class F = std::plus<>),
    (K first, K last, I values, KO keys_out, O out, E same = E(), F g = F()),
    auto n = EMU_RUN(reduce_by_key, (first, last, values, keys_out, out), [=](auto f, auto l, auto v, auto ko, auto o) {
        return loops::reduce_by_key(f, l, v, ko, o, same, g); });
    return std::make_pair(keys_out + n, out + n);)
EMU_THRUST(unique, (class I, class E = std::equal_to<>), (I first, I last, E same = E()),
    return first + EMU_RUN(unique, (first, last), [=](auto f, auto l) { return loops::unique_here(f, l, same); });)
EMU_THRUST(unique_copy, (class I, class O, class E = std::equal_to<>), (I first, I last, O out, E same = E()),
    return out + EMU_RUN(unique_copy, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::unique(f, l, o, same); });)
EMU_THRUST(unique_by_key, (class K, class I, class E = std::equal_to<>), (K first, K last, I values, E same = E()),
    auto n = EMU_RUN(unique_by_key, (first, last, values), [=](auto f, auto l, auto v) {
        return loops::reduce_by_key(f, l, v, f, v, same, [](const auto& a, const auto&) { return a; }); });
    return std::make_pair(first + n, values + n);)
EMU_THRUST(unique_by_key_copy, (class K, class I, class KO, class O, class E = std::equal_to<>),
    (K first, K last, I values, KO keys_out, O out, E same = E()),
    return reduce_by_key(policy, first, last, values, keys_out, out, same,
        [](const auto& a, const auto&) { return a; }, file, line);)
EMU_THRUST(adjacent_difference, (class I, class O, class F = std::minus<>), (I first, I last, O out, F g = F()),
    return out + EMU_RUN(adjacent_difference, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::adjacent_difference(f, l, o, g); });)
EMU_THRUST(gather, (class M, class I, class O), (M map, M last, I input, O out),
    return out + EMU_RUN(gather, (map, last, input, out), [](auto m, auto l, auto f, auto o) {
        ptrdiff_t n = l - m;
        for (ptrdiff_t i = 0; i < n; ++i) { value_of<I> value = f[ptrdiff_t(m[i])]; o[i] = value; }
        return n; });)
EMU_THRUST(scatter, (class I, class M, class O), (I first, I last, M map, O out),
    EMU_RUN(scatter, (first, last, map, out), [](auto f, auto l, auto m, auto o) {
        for (; f != l; ++f, ++m) { value_of<I> value = *f; o[ptrdiff_t(*m)] = value; } });)
EMU_THRUST(scatter_if, (class I, class M, class S, class O), (I first, I last, M map, S stencil, O out),
    EMU_RUN(scatter_if, (first, last, map, stencil, out), [](auto f, auto l, auto m, auto s, auto o) {
        for (; f != l; ++f, ++m, ++s) if (*s) { value_of<I> value = *f; o[ptrdiff_t(*m)] = value; } });)
EMU_THRUST(reverse_copy, (class I, class O), (I first, I last, O out),
    return out + EMU_RUN(reverse_copy, (first, last, out), [](auto f, auto l, auto o) {
        ptrdiff_t n = l - f;
        for (ptrdiff_t i = 0; i < n; ++i) { value_of<I> value = f[n - 1 - i]; o[i] = value; }
        return n; });)

// Of one value, and of each of a range.
#define EMU_BOUND(name)                                                                                               \
    EMU_THRUST(name, (class I, class V), (I first, I last, const V& value), V v = value;                              \
        return first + EMU_RUN(name, (first, last), [=](auto f, auto l) {                                             \
            return loops::name(f, l, v, std::less<>()); });)                                                          \
    EMU_THRUST(name, (class I, class J, class O), (I first, I last, J values, J values_last, O out),                  \
        return out + EMU_RUN(name, (first, last, values, values_last, out),                                           \
            [](auto f, auto l, auto v, auto end, auto o) {                                                            \
            ptrdiff_t n = end - v;                                                                                    \
            for (ptrdiff_t i = 0; i < n; ++i) o[i] = loops::name(f, l, value_of<J>(v[i]), std::less<>());             \
            return n; });)
EMU_BOUND(lower_bound)
EMU_BOUND(upper_bound)
#undef EMU_BOUND
EMU_THRUST(binary_search, (class I, class V), (I first, I last, const V& value), V v = value;
    return EMU_RUN(binary_search, (first, last), [=](auto f, auto l) {
        return loops::upper_bound(f, l, v, std::less<>()) > loops::lower_bound(f, l, v, std::less<>()); });)
EMU_THRUST(merge, (class I, class J, class O, class L = std::less<>),
    (I a, I a_last, J b, J b_last, O out, L less = L()),
    return out + EMU_RUN(merge, (a, a_last, b, b_last, out), [=](auto f, auto l, auto s, auto e, auto o) {
        return loops::merge(f, l, s, e, o, less); });)
#define EMU_SET(name, first, both, second)                                                                            \
    EMU_THRUST(name, (class I, class J, class O, class L = std::less<>),                                              \
        (I a, I a_last, J b, J b_last, O out, L less = L()),                                                          \
        return out + EMU_RUN(name, (a, a_last, b, b_last, out), [=](auto f, auto l, auto s, auto e, auto o) {         \
            return loops::sets(f, l, s, e, o, less, first, both, second); });)
EMU_SET(set_union, true, true, true)
EMU_SET(set_intersection, false, true, false)
EMU_SET(set_difference, true, false, false)
EMU_SET(set_symmetric_difference, true, false, true)
#undef EMU_SET

}  // namespace thrust
