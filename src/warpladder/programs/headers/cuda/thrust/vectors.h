// Vectors of the host and of the device.
#pragma once
#include <initializer_list>

#include "algorithms.h"

namespace thrust {

template <class T> class device_vector;

template <class T, class A = std::allocator<T>> class host_vector : public std::vector<T, A> {
  public:
    using std::vector<T, A>::vector;
    host_vector() = default;
    host_vector(const std::vector<T, A>& other) : std::vector<T, A>(other) {}
    template <class U> host_vector(const device_vector<U>& other) : std::vector<T, A>(other.size()) {
        thrust::copy(other.begin(), other.end(), this->begin()); }
    template <class U> host_vector(device_ptr<U> first, device_ptr<U> last) : std::vector<T, A>(size_t(last - first)) {
        thrust::copy(first, last, this->begin()); }
    template <class U> host_vector& operator=(const device_vector<U>& other) {
        this->resize(other.size());
        thrust::copy(other.begin(), other.end(), this->begin());
        return *this;
    }
};

template <class T> class device_vector {
    T* memory = nullptr;
    size_t count = 0, most = 0;
    const char* file;
    int line;

    void allocate(size_t n) {
        if (n) emulated::checked(emu_malloc((void**)&memory, n * sizeof(T), cudaMemoryTypeDevice,
            {"device_vector", sizeof(T)}, file, line));
        most = n;
    }
    void release() {
        if (memory) cudaFree(memory, file, line);
        memory = nullptr, count = most = 0;
    }

  public:
    using value_type = T;
    using reference = device_reference<T>;
    using const_reference = device_reference<const T>;
    using pointer = device_ptr<T>;
    using iterator = device_ptr<T>;
    using const_iterator = device_ptr<const T>;
    using size_type = size_t;
    using difference_type = ptrdiff_t;

    device_vector(EMU_HERE) : file(file), line(line) {}
    explicit device_vector(size_t n, EMU_HERE) : device_vector(n, T(), file, line) {}
    device_vector(size_t n, const T& value, EMU_HERE) : file(file), line(line) { resize(n, value); }
    device_vector(const device_vector& other, EMU_HERE) : file(file), line(line) {
        assign(other.begin(), other.end()); }
    device_vector(device_vector&& other) noexcept : file(other.file), line(other.line) { swap(other); }
    template <class A> device_vector(const std::vector<T, A>& other, EMU_HERE) : file(file), line(line) {
        assign(other.begin(), other.end()); }
    device_vector(std::initializer_list<T> values, EMU_HERE) : file(file), line(line) {
        assign(values.begin(), values.end()); }
    template <class I> requires(!std::is_arithmetic_v<I>) device_vector(I first, I last, EMU_HERE)
        : file(file), line(line) { assign(first, last); }
    ~device_vector() { release(); }

    device_vector& operator=(const device_vector& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    device_vector& operator=(device_vector&& other) noexcept { return swap(other), *this; }
    template <class A> device_vector& operator=(const std::vector<T, A>& other) {
        return assign(other.begin(), other.end()), *this; }
    device_vector& operator=(std::initializer_list<T> values) {
        return assign(values.begin(), values.end()), *this; }
    template <class I> requires(!std::is_arithmetic_v<I>) void assign(I first, I last) {
        size_t n = size_t(std::distance(first, last));
        if (n > most) release(), allocate(n);
        count = n;
        thrust::copy(first, last, begin());
    }
    void assign(size_t n, const T& value) { clear(), resize(n, value); }

    iterator begin() { return iterator(memory); }
    iterator end() { return iterator(memory + count); }
    const_iterator begin() const { return const_iterator(memory); }
    const_iterator end() const { return const_iterator(memory + count); }
    const_iterator cbegin() const { return begin(); }
    const_iterator cend() const { return end(); }
    auto rbegin() { return make_reverse_iterator(end()); }
    auto rend() { return make_reverse_iterator(begin()); }
    device_ptr<T> data() { return begin(); }
    device_ptr<const T> data() const { return begin(); }
    reference operator[](size_t i) { return reference(memory + i); }
    const_reference operator[](size_t i) const { return const_reference(memory + i); }
    reference front() { return (*this)[0]; }
    reference back() { return (*this)[count - 1]; }
    size_t size() const { return count; }
    size_t capacity() const { return most; }
    bool empty() const { return count == 0; }
    void clear() { count = 0; }
    void shrink_to_fit() {}
    void swap(device_vector& other) noexcept {
        std::swap(memory, other.memory), std::swap(count, other.count), std::swap(most, other.most);
        std::swap(file, other.file), std::swap(line, other.line);
    }
    void reserve(size_t n) {
        if (n <= most) return;
        device_vector bigger(file, line);
        bigger.allocate(n);
        bigger.count = count;
        thrust::copy(begin(), end(), bigger.begin());
        swap(bigger);
    }
    void resize(size_t n, const T& value = T()) {
        if (n > most) reserve(n > 2 * most ? n : 2 * most);
        size_t before = count;
        count = n;
        if (n > before) thrust::fill(begin() + ptrdiff_t(before), end(), value);
    }
    void push_back(const T& value) { resize(count + 1, value); }
    void pop_back() { --count; }
    iterator erase(iterator at) { return erase(at, at + 1); }
    iterator erase(iterator first, iterator last) {
        thrust::copy(last, end(), first);
        count -= size_t(last - first);
        return first;
    }
    template <class I> void insert(iterator at, I first, I last) {
        host_vector<T> all(begin(), at);
        all.insert(all.end(), first, last);
        host_vector<T> rest(at, end());
        all.insert(all.end(), rest.begin(), rest.end());
        *this = all;
    }
    friend bool operator==(const device_vector& a, const device_vector& b) {
        return a.size() == b.size() && thrust::equal(a.begin(), a.end(), b.begin()); }
    friend bool operator!=(const device_vector& a, const device_vector& b) { return !(a == b); }
};
template <class T> void swap(device_vector<T>& a, device_vector<T>& b) { a.swap(b); }

}  // namespace thrust
