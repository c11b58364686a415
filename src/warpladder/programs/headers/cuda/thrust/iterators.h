// Pointers to the device's memory, and iterators that compute: counting, constant, transform, zip, permutation.
#pragma once
#include <iterator>
#include <tuple>

#include "../../library.h"

namespace thrust {

using std::get;
using std::make_pair;
using std::make_tuple;
using std::pair;
using std::tie;
using std::tuple;
// of two types too, unlike std::swap
template <class A, class B> void swap(A& a, B& b) { A value = static_cast<A&&>(a); a = static_cast<B&&>(b), b = value; }
using std::tuple_element;
using std::tuple_size;

class system_error : public std::runtime_error {
    cudaError_t number;

  public:
    explicit system_error(cudaError_t number) : runtime_error(cudaGetErrorString(number)), number(number) {}
    cudaError_t code() const { return number; }
};
namespace system { using thrust::system_error; }

namespace emulated {
inline void checked(cudaError_t error) { if (error != cudaSuccess) throw system_error(error); }
}  // namespace emulated

// A number on the device, as host code sees it.
template <class T> class device_reference {
    T* place;

  public:
    explicit device_reference(T* place) : place(place) {}
    device_reference(const device_reference&) = default;
    operator T() const {
        if (emu::in_kernel()) return *place;
        std::remove_const_t<T> value;
        emulated::checked(cudaMemcpy(&value, place, sizeof(T), cudaMemcpyDeviceToHost));
        return value;
    }
    const device_reference& operator=(const T& value) const {
        if (emu::in_kernel()) *place = value;
        else emulated::checked(cudaMemcpy(place, &value, sizeof(T), cudaMemcpyHostToDevice));
        return *this;
    }
    const device_reference& operator=(const device_reference& other) const { return *this = T(other); }
    template <class V> const device_reference& operator+=(const V& v) const { return *this = T(*this) + v; }
    template <class V> const device_reference& operator-=(const V& v) const { return *this = T(*this) - v; }
    template <class V> const device_reference& operator*=(const V& v) const { return *this = T(*this) * v; }
    template <class V> const device_reference& operator/=(const V& v) const { return *this = T(*this) / v; }
    const device_reference& operator++() const { return *this += 1; }
    const device_reference& operator--() const { return *this -= 1; }
    auto operator&() const;
    friend std::ostream& operator<<(std::ostream& out, const device_reference& r) { return out << T(r); }
    friend void swap(device_reference a, device_reference b) { T value = a; a = b, b = value; }
};

// Base of the random access iterators whose position moves by whole numbers. I: the iterator.
template <class I, class V, class R> struct Moving {
    using iterator_category = std::random_access_iterator_tag;
    using value_type = V;
    using reference = R;
    using difference_type = ptrdiff_t;
    using pointer = void;
    I& me() { return static_cast<I&>(*this); }
    const I& me() const { return static_cast<const I&>(*this); }
    R operator*() const { return me().at(0); }
    R operator[](ptrdiff_t i) const { return me().at(i); }
    I& operator+=(ptrdiff_t by) { return me().move(by), me(); }
    I& operator-=(ptrdiff_t by) { return me().move(-by), me(); }
    I& operator++() { return *this += 1; }
    I& operator--() { return *this -= 1; }
    I operator++(int) { I old = me(); return *this += 1, old; }
    I operator--(int) { I old = me(); return *this -= 1, old; }
    friend I operator+(I it, ptrdiff_t by) { return it += by; }
    friend I operator+(ptrdiff_t by, I it) { return it += by; }
    friend I operator-(I it, ptrdiff_t by) { return it -= by; }
    friend ptrdiff_t operator-(const I& a, const I& b) { return a.place() - b.place(); }
    friend bool operator==(const I& a, const I& b) { return a.place() == b.place(); }
    friend bool operator!=(const I& a, const I& b) { return a.place() != b.place(); }
    friend bool operator<(const I& a, const I& b) { return a.place() < b.place(); }
    friend bool operator>(const I& a, const I& b) { return a.place() > b.place(); }
    friend bool operator<=(const I& a, const I& b) { return a.place() <= b.place(); }
    friend bool operator>=(const I& a, const I& b) { return a.place() >= b.place(); }
};

template <class T> class device_ptr
    : public Moving<device_ptr<T>, std::remove_const_t<T>, device_reference<T>> {
    T* raw = nullptr;

  public:
    using pointer = device_ptr;
    using element_type = T;
    device_ptr() = default;
    device_ptr(std::nullptr_t) {}
    explicit device_ptr(T* raw) : raw(raw) {}
    explicit device_ptr(const device_ptr<void>& p);
    template <class U> requires(std::is_convertible_v<U*, T*>) device_ptr(const device_ptr<U>& p) : raw(p.get()) {}
    T* get() const { return raw; }
    device_reference<T> at(ptrdiff_t i) const { return device_reference<T>(raw + i); }
    void move(ptrdiff_t by) { raw += by; }
    T* place() const { return raw; }
    explicit operator bool() const { return raw; }
};
template <> class device_ptr<void> {
    void* raw = nullptr;

  public:
    device_ptr() = default;
    explicit device_ptr(void* raw) : raw(raw) {}
    template <class T> device_ptr(const device_ptr<T>& p) : raw(p.get()) {}
    void* get() const { return raw; }
};
template <class T> device_ptr<T>::device_ptr(const device_ptr<void>& p) : raw(static_cast<T*>(p.get())) {}
template <class T> auto device_reference<T>::operator&() const { return device_ptr<T>(place); }

template <class T> device_ptr<T> device_pointer_cast(T* raw) { return device_ptr<T>(raw); }
template <class T> device_ptr<T> device_pointer_cast(device_ptr<T> p) { return p; }
template <class T> T* raw_pointer_cast(T* raw) { return raw; }
template <class T> T* raw_pointer_cast(const device_ptr<T>& p) { return p.get(); }
template <class T> device_ptr<T> device_malloc(size_t count, EMU_HERE) {
    T* data = nullptr;
    emulated::checked(cudaMalloc(&data, count * sizeof(T), file, line));
    return device_ptr<T>(data);
}
inline device_ptr<void> device_malloc(size_t bytes, EMU_HERE) {
    return device_ptr<void>(device_malloc<char>(bytes, file, line)); }
template <class T> void device_free(device_ptr<T> p) { emulated::checked(cudaFree(p.get())); }

template <class T> class counting_iterator : public Moving<counting_iterator<T>, T, T> {
    T first{};

  public:
    counting_iterator() = default;
    explicit counting_iterator(T first) : first(first) {}
    T at(ptrdiff_t i) const { return T(first + i); }
    void move(ptrdiff_t by) { first = T(first + by); }
    ptrdiff_t place() const { return ptrdiff_t(first); }
};
template <class T> counting_iterator<T> make_counting_iterator(T first) { return counting_iterator<T>(first); }

template <class T> class constant_iterator : public Moving<constant_iterator<T>, T, T> {
    T value{};
    ptrdiff_t index = 0;

  public:
    constant_iterator() = default;
    explicit constant_iterator(T value, ptrdiff_t index = 0) : value(value), index(index) {}
    T at(ptrdiff_t) const { return value; }
    void move(ptrdiff_t by) { index += by; }
    ptrdiff_t place() const { return index; }
};
template <class T> constant_iterator<T> make_constant_iterator(T value, ptrdiff_t index = 0) {
    return constant_iterator<T>(value, index); }

struct Discarded { template <class T> const Discarded& operator=(const T&) const { return *this; } };
class discard_iterator : public Moving<discard_iterator, Discarded, Discarded> {
    ptrdiff_t index = 0;

  public:
    discard_iterator(ptrdiff_t index = 0) : index(index) {}
    Discarded at(ptrdiff_t) const { return {}; }
    void move(ptrdiff_t by) { index += by; }
    ptrdiff_t place() const { return index; }
};
inline discard_iterator make_discard_iterator(ptrdiff_t index = 0) { return discard_iterator(index); }

template <class I> using reference_of = decltype(*std::declval<const I&>());
template <class I> using value_of = typename std::iterator_traits<I>::value_type;

template <class F, class I> class transform_iterator : public Moving<transform_iterator<F, I>,
    std::remove_cvref_t<std::invoke_result_t<const F&, value_of<I>>>,
    std::remove_cvref_t<std::invoke_result_t<const F&, value_of<I>>>> {
  public:
    I its;
    F f;
    transform_iterator(I its, F f = F()) : its(its), f(f) {}
    auto at(ptrdiff_t i) const { return f(value_of<I>(its[i])); }
    void move(ptrdiff_t by) { its += by; }
    I place() const { return its; }
    const I& base() const { return its; }
};
template <class F, class I> transform_iterator<F, I> make_transform_iterator(I it, F f) {
    return transform_iterator<F, I>(it, f); }

template <class T> class zip_iterator;
template <class... I> class zip_iterator<std::tuple<I...>> : public Moving<zip_iterator<std::tuple<I...>>,
    std::tuple<value_of<I>...>, std::tuple<reference_of<I>...>> {
  public:
    std::tuple<I...> its;
    zip_iterator(std::tuple<I...> its) : its(its) {}
    auto at(ptrdiff_t i) const {
        return std::apply([=](auto&... it) { return std::tuple<reference_of<I>...>(it[i]...); }, its); }
    void move(ptrdiff_t by) { std::apply([=](auto&... it) { ((it += by), ...); }, its); }
    auto place() const { return std::get<0>(its); }
    const std::tuple<I...>& get_iterator_tuple() const { return its; }
};
template <class... I> zip_iterator<std::tuple<I...>> make_zip_iterator(std::tuple<I...> its) { return {its}; }
template <class... I> requires(sizeof...(I) > 1) zip_iterator<std::tuple<I...>> make_zip_iterator(I... its) {
    return {std::tuple<I...>(its...)}; }

template <class E, class I> class permutation_iterator : public Moving<permutation_iterator<E, I>, value_of<E>,
    reference_of<E>> {
  public:
    E elements;
    I its;
    permutation_iterator(E elements, I its) : elements(elements), its(its) {}
    reference_of<E> at(ptrdiff_t i) const { return elements[ptrdiff_t(value_of<I>(its[i]))]; }
    void move(ptrdiff_t by) { its += by; }
    I place() const { return its; }
};
template <class E, class I> permutation_iterator<E, I> make_permutation_iterator(E elements, I its) {
    return {elements, its}; }

template <class I> using reverse_iterator = std::reverse_iterator<I>;
template <class I> reverse_iterator<I> make_reverse_iterator(I it) { return reverse_iterator<I>(it); }
template <class I> ptrdiff_t distance(I first, I last) { return last - first; }
template <class I> void advance(I& it, ptrdiff_t by) { it += by; }

// Iterators as kernels use them: pointers of the device become plain ones.
template <class I> I raw(const I& it) { return it; }
template <class T> T* raw(const device_ptr<T>& p) { return p.get(); }
template <class F, class I> auto raw(const transform_iterator<F, I>& it);
template <class E, class I> auto raw(const permutation_iterator<E, I>& it);
template <class... I> auto raw(const zip_iterator<std::tuple<I...>>& it);
template <class I> auto raw(const std::reverse_iterator<I>& it);
template <class F, class I> auto raw(const transform_iterator<F, I>& it) {
    return transform_iterator<F, decltype(raw(it.its))>(raw(it.its), it.f); }
template <class E, class I> auto raw(const permutation_iterator<E, I>& it) {
    return permutation_iterator<decltype(raw(it.elements)), decltype(raw(it.its))>(raw(it.elements), raw(it.its)); }
template <class... I> auto raw(const zip_iterator<std::tuple<I...>>& it) {
    return std::apply([](auto&... each) { return zip_iterator<std::tuple<decltype(raw(each))...>>({raw(each)...}); },
        it.its);
}
template <class I> auto raw(const std::reverse_iterator<I>& it) { return std::make_reverse_iterator(raw(it.base())); }

template <class I> constexpr bool is_device = false;
template <class T> constexpr bool is_device<device_ptr<T>> = true;
template <class F, class I> constexpr bool is_device<transform_iterator<F, I>> = is_device<I>;
template <class E, class I> constexpr bool is_device<permutation_iterator<E, I>> = is_device<E> || is_device<I>;
template <class... I> constexpr bool is_device<zip_iterator<std::tuple<I...>>> = (is_device<I> || ...);
template <class I> constexpr bool is_device<std::reverse_iterator<I>> = is_device<I>;

}  // namespace thrust
