// Bodies of the algorithms: loops over plain iterators, by one thread. Iterators may return proxies, so numbers are
// moved by assignment. Each result is a number, or the count of elements up to the returned iterator.
#pragma once
#include <utility>

#include "iterators.h"

namespace thrust::loops {

template <class I, class V> void fill(I first, I last, const V& value) {
    for (; first != last; ++first) *first = value; }
template <class I, class F> void generate(I first, I last, F f) { for (; first != last; ++first) *first = f(); }
template <class I, class V> void sequence(I first, I last, V value, V step) {
    for (; first != last; ++first, value = V(value + step)) *first = value; }
template <class I, class F> void tabulate(I first, I last, F f) {
    for (ptrdiff_t i = 0; first != last; ++first, ++i) *first = f(i); }
template <class I, class F> void for_each(I first, I last, F f) { for (; first != last; ++first) f(*first); }
template <class I, class O, class F> ptrdiff_t transform(I first, I last, O out, F f) {
    ptrdiff_t n = last - first;
    for (ptrdiff_t i = 0; i < n; ++i) out[i] = f(first[i]);
    return n;
}
template <class I, class J, class O, class F> ptrdiff_t transform2(I first, I last, J second, O out, F f) {
    ptrdiff_t n = last - first;
    for (ptrdiff_t i = 0; i < n; ++i) out[i] = f(first[i], second[i]);
    return n;
}
template <class I, class S, class O, class F, class P>
ptrdiff_t transform_if(I first, I last, S stencil, O out, F f, P p) {
    ptrdiff_t n = last - first;
    for (ptrdiff_t i = 0; i < n; ++i) if (p(stencil[i])) out[i] = f(first[i]);
    return n;
}
// Elements that p takes by the stencil, one after the other.
template <class I, class S, class O, class P> ptrdiff_t select(I first, I last, S stencil, O out, P p) {
    ptrdiff_t n = last - first, kept = 0;
    for (ptrdiff_t i = 0; i < n; ++i)
        if (p(stencil[i])) { value_of<I> value = first[i]; out[kept++] = value; }
    return kept;
}
template <class I, class V, class F> V reduce(I first, I last, V sum, F f) {
    for (; first != last; ++first) sum = f(sum, value_of<I>(*first));
    return sum;
}
template <class I, class U, class V, class F> V transform_reduce(I first, I last, U u, V sum, F f) {
    for (; first != last; ++first) sum = f(sum, u(value_of<I>(*first)));
    return sum;
}
template <class I, class J, class V, class F, class G> V inner_product(I first, I last, J second, V sum, F f, G g) {
    for (; first != last; ++first, ++second) sum = f(sum, g(value_of<I>(*first), value_of<J>(*second)));
    return sum;
}
template <class I, class U, class O, class F> ptrdiff_t inclusive(I first, I last, U u, O out, F f) {
    using V = std::remove_cvref_t<decltype(u(value_of<I>(*first)))>;
    ptrdiff_t n = last - first;
    if (n == 0) return 0;
    V sum = u(value_of<I>(first[0]));
    out[0] = sum;
    for (ptrdiff_t i = 1; i < n; ++i) { sum = f(sum, u(value_of<I>(first[i]))); out[i] = sum; }
    return n;
}
template <class I, class U, class O, class V, class F> ptrdiff_t exclusive(I first, I last, U u, O out, V sum, F f) {
    ptrdiff_t n = last - first;
    for (ptrdiff_t i = 0; i < n; ++i) {
        V next = f(sum, u(value_of<I>(first[i])));
        out[i] = sum;
        sum = next;
    }
    return n;
}
template <class K, class I, class O, class E, class F>
ptrdiff_t inclusive_by_key(K keys, K last, I values, O out, E same, F f) {
    ptrdiff_t n = last - keys;
    for (ptrdiff_t i = 0; i < n; ++i) {
        value_of<I> value = values[i];
        if (i && same(value_of<K>(keys[i - 1]), value_of<K>(keys[i]))) value = f(value_of<I>(out[i - 1]), value);
        out[i] = value;
    }
    return n;
}
template <class K, class I, class O, class V, class E, class F>
ptrdiff_t exclusive_by_key(K keys, K last, I values, O out, V first, E same, F f) {
    ptrdiff_t n = last - keys;
    V sum = first;
    for (ptrdiff_t i = 0; i < n; ++i) {
        if (i && !same(value_of<K>(keys[i - 1]), value_of<K>(keys[i]))) sum = first;
        V next = f(sum, value_of<I>(values[i]));
        out[i] = sum;
        sum = next;
    }
    return n;
}
template <class K, class I, class KO, class O, class E, class F>
ptrdiff_t reduce_by_key(K keys, K last, I values, KO keys_out, O out, E same, F f) {
    ptrdiff_t n = last - keys, runs = 0;
    for (ptrdiff_t i = 0; i < n;) {
        value_of<K> key = keys[i];
        value_of<I> sum = values[i];
        for (++i; i < n && same(key, value_of<K>(keys[i])); ++i) sum = f(sum, value_of<I>(values[i]));
        keys_out[runs] = key;
        out[runs++] = sum;
    }
    return runs;
}
template <class I, class O, class E> ptrdiff_t unique(I first, I last, O out, E same) {
    ptrdiff_t n = last - first, kept = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        value_of<I> value = first[i];
        if (i == 0 || !same(value_of<I>(first[i - 1]), value)) out[kept++] = value;
    }
    return kept;
}
// In place: the element before may be overwritten, so the last one that was kept is compared.
template <class I, class E> ptrdiff_t unique_here(I first, I last, E same) {
    ptrdiff_t n = last - first, kept = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        value_of<I> value = first[i];
        if (kept == 0 || !same(value_of<I>(first[kept - 1]), value)) first[kept++] = value;
    }
    return kept;
}
template <class I, class P> ptrdiff_t find_if(I first, I last, P p) {
    ptrdiff_t n = last - first, i = 0;
    while (i < n && !p(value_of<I>(first[i]))) ++i;
    return i;
}
template <class I, class P> ptrdiff_t count_if(I first, I last, P p) {
    ptrdiff_t found = 0;
    for (; first != last; ++first) found += bool(p(value_of<I>(*first)));
    return found;
}
template <class I, class L> ptrdiff_t extreme(I first, I last, L is_better) {
    ptrdiff_t n = last - first, best = 0;
    for (ptrdiff_t i = 1; i < n; ++i) if (is_better(value_of<I>(first[i]), value_of<I>(first[best]))) best = i;
    return best;
}
template <class I, class J, class E> bool equal(I first, I last, J second, E same) {
    for (; first != last; ++first, ++second) if (!same(value_of<I>(*first), value_of<J>(*second))) return false;
    return true;
}
template <class I, class L> bool is_sorted(I first, I last, L less) {
    for (ptrdiff_t i = 1, n = last - first; i < n; ++i)
        if (less(value_of<I>(first[i]), value_of<I>(first[i - 1]))) return false;
    return true;
}
template <class I> void reverse(I first, I last) {
    for (ptrdiff_t i = 0, j = last - first - 1; i < j; ++i, --j) {
        value_of<I> left = first[i], right = first[j];
        first[i] = right;
        first[j] = left;
    }
}
template <class I, class J> void swap_ranges(I first, I last, J second) {
    for (; first != last; ++first, ++second) {
        value_of<I> left = *first, right = *second;
        *first = right;
        *second = left;
    }
}
template <class I, class O, class F> ptrdiff_t adjacent_difference(I first, I last, O out, F f) {
    ptrdiff_t n = last - first;
    if (n == 0) return 0;
    value_of<I> before = first[0];
    out[0] = before;
    for (ptrdiff_t i = 1; i < n; ++i) {
        value_of<I> value = first[i];
        out[i] = f(value, before);
        before = value;
    }
    return n;
}
template <class I, class V, class L> ptrdiff_t lower_bound(I first, I last, const V& value, L less) {
    ptrdiff_t low = 0, high = last - first;
    while (low < high) {
        ptrdiff_t middle = (low + high) / 2;
        if (less(value_of<I>(first[middle]), value)) low = middle + 1;
        else high = middle;
    }
    return low;
}
template <class I, class V, class L> ptrdiff_t upper_bound(I first, I last, const V& value, L less) {
    ptrdiff_t low = 0, high = last - first;
    while (low < high) {
        ptrdiff_t middle = (low + high) / 2;
        if (less(value, value_of<I>(first[middle]))) high = middle;
        else low = middle + 1;
    }
    return low;
}
template <class I, class J, class O, class L> ptrdiff_t merge(I a, I a_last, J b, J b_last, O out, L less) {
    ptrdiff_t n = 0;
    while (a != a_last || b != b_last) {
        bool second = a == a_last || (b != b_last && less(value_of<J>(*b), value_of<I>(*a)));
        if (second) { value_of<J> value = *b; out[n++] = value; ++b; }
        else { value_of<I> value = *a; out[n++] = value; ++a; }
    }
    return n;
}
// Sets of sorted numbers: those of one, of both, of the other.
template <class I, class J, class O, class L>
ptrdiff_t sets(I a, I a_last, J b, J b_last, O out, L less, bool first, bool both, bool second) {
    ptrdiff_t n = 0;
    while (a != a_last || b != b_last) {
        bool of_a = b == b_last || (a != a_last && less(value_of<I>(*a), value_of<J>(*b)));
        bool of_b = !of_a && (a == a_last || less(value_of<J>(*b), value_of<I>(*a)));
        if (of_b) { if (second) { value_of<J> value = *b; out[n++] = value; } }
        else if (of_a ? first : both) { value_of<I> value = *a; out[n++] = value; }
        if (!of_b) ++a;
        if (!of_a) ++b;
    }
    return n;
}
// Stable, by merging neighbouring runs; spare memory for half of the keys and of the values.
template <class K, class I, class A, class B, class L>
void sort(K keys, I values, ptrdiff_t n, A* spare_keys, B* spare_values, L less) {
    for (ptrdiff_t run = 1; run < n; run *= 2)
        for (ptrdiff_t first = 0; first + run < n; first += 2 * run) {
            ptrdiff_t end = first + 2 * run < n ? first + 2 * run : n;
            if (!less(value_of<K>(keys[first + run]), value_of<K>(keys[first + run - 1]))) continue;
            for (ptrdiff_t i = 0; i < run; ++i) {
                spare_keys[i] = keys[first + i];
                if constexpr (!std::is_same_v<B, char>) spare_values[i] = values[first + i];
            }
            for (ptrdiff_t i = 0, j = first + run, to = first; i < run; ++to) {
                if (j < end && less(value_of<K>(keys[j]), spare_keys[i])) {
                    keys[to] = value_of<K>(keys[j]);
                    if constexpr (!std::is_same_v<B, char>) values[to] = value_of<I>(values[j]);
                    ++j;
                } else {
                    keys[to] = spare_keys[i];
                    if constexpr (!std::is_same_v<B, char>) values[to] = spare_values[i];
                    ++i;
                }
            }
        }
}

}  // namespace thrust::loops
