// Algorithms of Thrust: on the device where the policy or an iterator is of it, otherwise on the host.
#pragma once
#include "functional.h"
#include "loops.h"

namespace thrust {

struct Policy {
    bool on_device = false;
    cudaStream_t stream = 0;
    Policy on(cudaStream_t its) const { return {on_device, its}; }
    template <class A> const Policy& operator()(A&&) const { return *this; }  // an allocator is not used
};
static const Policy device{true}, host{}, seq{};
namespace cuda { static const Policy par{true}, par_nosync{true}; }
namespace omp { static const Policy par{}; }
namespace system::cuda { using thrust::cuda::par; }

namespace emulated {

// f of the plain iterators, run where they belong.
template <class F, class... I> auto run(const Policy& policy, const char* name, const char* file, int line, F f,
    const I&... its) {
    using R = decltype(f(raw(its)...));
    if (!(policy.on_device || (is_device<I> || ...)) || emu::in_kernel()) return f(raw(its)...);
    auto all = std::make_tuple(raw(its)...);
    if constexpr (std::is_void_v<R>) {
        emu::on_device(name, [=]() mutable { std::apply(f, all); }, file, line, policy.stream);
        checked(cudaPeekAtLastError());
    } else {
        emu::Temporary<R> result(1, file, line);
        R *place = result.data, out;
        emu::on_device(name, [=]() mutable { *place = std::apply(f, all); }, file, line, policy.stream);
        checked(cudaMemcpy(&out, place, sizeof(R), cudaMemcpyDeviceToHost));
        return out;
    }
}

template <class K, class I, class L> void sorted(const Policy& policy, const char* name, K first, ptrdiff_t n, I values,
    L less, const char* file, int line) {
    constexpr bool has_values = !std::is_same_v<I, std::nullptr_t>;
    using A = value_of<K>;
    using B = value_of<std::conditional_t<has_values, I, char*>>;
    auto with = [&](A* keys, B* spare) {
        run(policy, name, file, line, [=](auto k, auto v) { loops::sort(k, v, n, keys, spare, less); }, first, values);
    };
    if (n < 2) return;
    if ((policy.on_device || is_device<K>) && !emu::in_kernel()) {
        emu::Temporary<A> keys(size_t(n), file, line);
        emu::Temporary<B> spare(has_values ? size_t(n) : 0, file, line);
        return with(keys.data, spare.data);
    }
    std::unique_ptr<A[]> keys(new A[size_t(n)]);
    std::unique_ptr<B[]> spare(new B[has_values ? size_t(n) : 1]);
    with(keys.get(), spare.get());
}

template <class I, class O> O copied(const Policy& policy, I first, I last, O out, const char* file, int line) {
    using T = std::conditional_t<std::is_void_v<value_of<O>>, value_of<I>, value_of<O>>;
    if constexpr (is_device<I> == is_device<O>) {
        return out + run(policy, "thrust::copy", file, line, [](auto f, auto l, auto o) {
            return loops::transform(f, l, o, std::identity()); }, first, last, out);
    } else {
        size_t n = size_t(std::distance(first, last));
        if (n == 0) return out;
        std::unique_ptr<T[]> values(new T[n]);
        emu::Temporary<T> there(n, file, line);
        T *data = values.get(), *far = there.data;
        if constexpr (is_device<O>) {
            for (size_t i = 0; i < n; ++i, ++first) data[i] = *first;
            checked(cudaMemcpy(far, data, n * sizeof(T), cudaMemcpyHostToDevice, file, line));
            run(policy, "thrust::copy", file, line, [=](auto o) {
                loops::transform(far, far + n, o, std::identity()); }, out);
            return out + ptrdiff_t(n);
        } else {
            run(policy, "thrust::copy", file, line, [=](auto f, auto l) {
                loops::transform(f, l, far, std::identity()); }, first, last);
            checked(cudaMemcpy(data, far, n * sizeof(T), cudaMemcpyDeviceToHost, file, line));
            for (size_t i = 0; i < n; ++i, ++out) *out = data[i];
            return out;
        }
    }
}

}  // namespace emulated

#define EMU_LIST(...) __VA_ARGS__
// An algorithm with and without a policy before its arguments.
#define EMU_THRUST(name, types, arguments, ...)                                                                   \
    template <EMU_LIST types> auto name(EMU_LIST arguments, EMU_HERE) { const Policy policy; __VA_ARGS__ }        \
    template <EMU_LIST types> auto name(const Policy& policy, EMU_LIST arguments, EMU_HERE) { __VA_ARGS__ }
#define EMU_RUN(name, its, ...) emulated::run(policy, "thrust::" #name, file, line, __VA_ARGS__, EMU_LIST its)

EMU_THRUST(fill, (class I, class V), (I first, I last, const V& value),
    V v = value; EMU_RUN(fill, (first, last), [=](auto f, auto l) { loops::fill(f, l, v); });)
EMU_THRUST(fill_n, (class I, class N, class V), (I first, N n, const V& value),
    V v = value; EMU_RUN(fill_n, (first, first + n), [=](auto f, auto l) { loops::fill(f, l, v); }); return first + n;)
EMU_THRUST(generate, (class I, class F), (I first, I last, F g),
    EMU_RUN(generate, (first, last), [=](auto f, auto l) { loops::generate(f, l, g); });)
EMU_THRUST(tabulate, (class I, class F), (I first, I last, F g),
    EMU_RUN(tabulate, (first, last), [=](auto f, auto l) { loops::tabulate(f, l, g); });)
EMU_THRUST(sequence, (class I, class V, class W = V), (I first, I last, V from, W step = 1),
    using T = value_of<I>;
    EMU_RUN(sequence, (first, last), [=](auto f, auto l) { loops::sequence(f, l, T(from), T(step)); });)
EMU_THRUST(sequence, (class I), (I first, I last), return sequence(policy, first, last, 0, 1, file, line);)
EMU_THRUST(for_each, (class I, class F), (I first, I last, F g),
    EMU_RUN(for_each, (first, last), [=](auto f, auto l) { loops::for_each(f, l, g); }); return last;)
EMU_THRUST(for_each_n, (class I, class N, class F), (I first, N n, F g),
    return for_each(policy, first, first + n, g, file, line);)
EMU_THRUST(copy, (class I, class O), (I first, I last, O out),
    return emulated::copied(policy, first, last, out, file, line);)
EMU_THRUST(copy_n, (class I, class N, class O), (I first, N n, O out),
    return emulated::copied(policy, first, first + n, out, file, line);)
EMU_THRUST(uninitialized_copy, (class I, class O), (I first, I last, O out),
    return emulated::copied(policy, first, last, out, file, line);)
EMU_THRUST(uninitialized_fill, (class I, class V), (I first, I last, const V& value),
    fill(policy, first, last, value, file, line);)
EMU_THRUST(transform, (class I, class O, class F), (I first, I last, O out, F g),
    return out + EMU_RUN(transform, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::transform(f, l, o, g); });)
EMU_THRUST(transform, (class I, class J, class O, class F), (I first, I last, J second, O out, F g),
    return out + EMU_RUN(transform, (first, last, second, out), [=](auto f, auto l, auto s, auto o) {
        return loops::transform2(f, l, s, o, g); });)
EMU_THRUST(transform_if, (class I, class O, class F, class P), (I first, I last, O out, F g, P p),
    return out + EMU_RUN(transform_if, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::transform_if(f, l, f, o, g, p); });)
EMU_THRUST(replace_if, (class I, class P, class V), (I first, I last, P p, const V& value),
    V v = value; EMU_RUN(replace_if, (first, last), [=](auto f, auto l) {
        for (; f != l; ++f) if (p(value_of<I>(*f))) *f = v; });)
EMU_THRUST(replace, (class I, class V), (I first, I last, const V& old, const V& value),
    V o = old; V v = value; EMU_RUN(replace, (first, last), [=](auto f, auto l) {
        for (; f != l; ++f) if (value_of<I>(*f) == o) *f = v; });)
EMU_THRUST(copy_if, (class I, class O, class P), (I first, I last, O out, P p),
    return out + EMU_RUN(copy_if, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::select(f, l, f, o, p); });)
EMU_THRUST(copy_if, (class I, class S, class O, class P), (I first, I last, S stencil, O out, P p),
    return out + EMU_RUN(copy_if, (first, last, stencil, out), [=](auto f, auto l, auto s, auto o) {
        return loops::select(f, l, s, o, p); });)
EMU_THRUST(remove_if, (class I, class P), (I first, I last, P p),
    return first + EMU_RUN(remove_if, (first, last), [=](auto f, auto l) {
        return loops::select(f, l, f, f, [=](const auto& x) { return !p(x); }); });)
EMU_THRUST(remove_if, (class I, class S, class P), (I first, I last, S stencil, P p),
    return first + EMU_RUN(remove_if, (first, last, stencil), [=](auto f, auto l, auto s) {
        return loops::select(f, l, s, f, [=](const auto& x) { return !p(x); }); });)
EMU_THRUST(remove_copy_if, (class I, class O, class P), (I first, I last, O out, P p),
    return out + EMU_RUN(remove_copy_if, (first, last, out), [=](auto f, auto l, auto o) {
        return loops::select(f, l, f, o, [=](const auto& x) { return !p(x); }); });)
EMU_THRUST(remove, (class I, class V), (I first, I last, const V& value),
    V v = value; return first + EMU_RUN(remove, (first, last), [=](auto f, auto l) {
        return loops::select(f, l, f, f, [=](const auto& x) { return !(x == v); }); });)
EMU_THRUST(partition, (class I, class P), (I first, I last, P p),
    auto count = EMU_RUN(partition, (first, last), [=](auto f, auto l) { return loops::count_if(f, l, p); });
    emulated::sorted(policy, "thrust::partition", first, last - first, nullptr, [=](const auto& a, const auto& b) {
        return p(a) && !p(b); }, file, line);
    return first + count;)
EMU_THRUST(stable_partition, (class I, class P), (I first, I last, P p),
    return partition(policy, first, last, p, file, line);)
EMU_THRUST(reduce, (class I, class V, class F = std::plus<>), (I first, I last, V from, F g = F()),
    return EMU_RUN(reduce, (first, last), [=](auto f, auto l) { return loops::reduce(f, l, from, g); });)
EMU_THRUST(reduce, (class I), (I first, I last),
    return reduce(policy, first, last, value_of<I>(), std::plus<>(), file, line);)
EMU_THRUST(transform_reduce, (class I, class U, class V, class F), (I first, I last, U u, V from, F g),
    return EMU_RUN(transform_reduce, (first, last), [=](auto f, auto l) {
        return loops::transform_reduce(f, l, u, from, g); });)
EMU_THRUST(inner_product, (class I, class J, class V, class F = std::plus<>, class G = std::multiplies<>),
    (I first, I last, J second, V from, F g = F(), G h = G()),
    return EMU_RUN(inner_product, (first, last, second), [=](auto f, auto l, auto s) {
        return loops::inner_product(f, l, s, from, g, h); });)
EMU_THRUST(count_if, (class I, class P), (I first, I last, P p),
    return EMU_RUN(count_if, (first, last), [=](auto f, auto l) { return loops::count_if(f, l, p); });)
EMU_THRUST(count, (class I, class V), (I first, I last, const V& value), V v = value;
    return count_if(policy, first, last, [=](const auto& x) { return x == v; }, file, line);)
EMU_THRUST(find_if, (class I, class P), (I first, I last, P p),
    return first + EMU_RUN(find_if, (first, last), [=](auto f, auto l) { return loops::find_if(f, l, p); });)
EMU_THRUST(find_if_not, (class I, class P), (I first, I last, P p),
    return find_if(policy, first, last, [=](const auto& x) { return !p(x); }, file, line);)
EMU_THRUST(find, (class I, class V), (I first, I last, const V& value), V v = value;
    return find_if(policy, first, last, [=](const auto& x) { return x == v; }, file, line);)
EMU_THRUST(any_of, (class I, class P), (I first, I last, P p),
    return find_if(policy, first, last, p, file, line) != last;)
EMU_THRUST(none_of, (class I, class P), (I first, I last, P p),
    return find_if(policy, first, last, p, file, line) == last;)
EMU_THRUST(all_of, (class I, class P), (I first, I last, P p),
    return find_if_not(policy, first, last, p, file, line) == last;)
EMU_THRUST(min_element, (class I, class L = std::less<>), (I first, I last, L less = L()),
    return first + EMU_RUN(min_element, (first, last), [=](auto f, auto l) { return loops::extreme(f, l, less); });)
EMU_THRUST(max_element, (class I, class L = std::less<>), (I first, I last, L less = L()),
    return first + EMU_RUN(max_element, (first, last), [=](auto f, auto l) {
        return loops::extreme(f, l, [=](const auto& a, const auto& b) { return less(b, a); }); });)
EMU_THRUST(minmax_element, (class I, class L = std::less<>), (I first, I last, L less = L()),
    return std::make_pair(min_element(policy, first, last, less, file, line),
        max_element(policy, first, last, less, file, line));)
EMU_THRUST(equal, (class I, class J, class E = std::equal_to<>), (I first, I last, J second, E same = E()),
    return EMU_RUN(equal, (first, last, second), [=](auto f, auto l, auto s) {
        return loops::equal(f, l, s, same); });)
EMU_THRUST(is_sorted, (class I, class L = std::less<>), (I first, I last, L less = L()),
    return EMU_RUN(is_sorted, (first, last), [=](auto f, auto l) { return loops::is_sorted(f, l, less); });)
EMU_THRUST(reverse, (class I), (I first, I last),
    EMU_RUN(reverse, (first, last), [](auto f, auto l) { loops::reverse(f, l); });)
EMU_THRUST(swap_ranges, (class I, class J), (I first, I last, J second),
    EMU_RUN(swap_ranges, (first, last, second), [](auto f, auto l, auto s) { loops::swap_ranges(f, l, s); });
    return second + (last - first);)

EMU_THRUST(sort, (class I, class L = std::less<>), (I first, I last, L less = L()),
    emulated::sorted(policy, "thrust::sort", first, last - first, nullptr, less, file, line);)
EMU_THRUST(stable_sort, (class I, class L = std::less<>), (I first, I last, L less = L()),
    emulated::sorted(policy, "thrust::stable_sort", first, last - first, nullptr, less, file, line);)
EMU_THRUST(sort_by_key, (class K, class I, class L = std::less<>), (K first, K last, I values, L less = L()),
    emulated::sorted(policy, "thrust::sort_by_key", first, last - first, values, less, file, line);)
EMU_THRUST(stable_sort_by_key, (class K, class I, class L = std::less<>), (K first, K last, I values, L less = L()),
    emulated::sorted(policy, "thrust::stable_sort_by_key", first, last - first, values, less, file, line);)

}  // namespace thrust

#include "scans.h"
