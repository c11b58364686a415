// Correct kernels of correct/grid.cu without Python, so that they can run on a processor for which there is only an
// emulator: in every order, their results printed.
#include <cstdio>
#include <vector>

#include "interface.h"

using namespace emu;

extern "C" {
void emu_kernel_0(void**);
void emu_kernel_2(void**);
void emu_kernel_6(void**);
void emu_kernel_7(void**);
const Layout* emu_layout();
int emu_launch(Launch*);
void* emu_allocate(size_t, unsigned);
void emu_written(void*, size_t);
}

struct Argument {
    uint64_t value;
    size_t bytes;  // of an array; 0 for a number
};

template <class T> static T* array(size_t n, T first, T step) {
    T* made = static_cast<T*>(emu_allocate(n * sizeof(T), 4));
    for (size_t i = 0; i < n; ++i) made[i] = first + T(i % 17) * step;
    emu_written(made, n * sizeof(T));
    return made;
}
template <class T> static Argument all(T* array, size_t n) { return {uint64_t(array), n * sizeof(T)}; }

static void send(void (*kernel)(void**), unsigned grid, unsigned block, std::vector<Argument> arguments, unsigned order,
    bool together = false, unsigned cluster = 1, unsigned shared = 0) {
    std::vector<View> views;
    std::vector<void*> pointers;
    for (auto& argument : arguments) {
        pointers.push_back(&argument.value);
        if (argument.bytes) views.push_back({argument.value, argument.bytes, "array", 4, 0});
    }
    Launch launch{kernel, pointers.data(), emu_layout(), "kernel", {grid, 1, 1}, {block, 1, 1}, {cluster, 1, 1}, shared,
        together, order, 1, 2, unsigned(views.size()), views.data(), reinterpret_cast<void*>(kernel), nullptr};
    if (emu_launch(&launch)) printf("%s\n", static_cast<char*>(launch.reports));
}

int main() {
    for (unsigned order = 0; order < 3; ++order) {
        float *x = array<float>(1280, 1.5f, 1.0f), *part = array<float>(20, 0, 0), *total = array<float>(1, 0, 0);
        unsigned* ticket = array<unsigned>(1, 0, 0);
        send(emu_kernel_0, 20, 64, {all(x, 1280), all(part, 20), all(ticket, 1), all(total, 1)}, order);
        int *numbers = array<int>(1024, 1, 1), *sums = array<int>(1024, 0, 0), *carried = array<int>(16, 0, 0),
            *ready = array<int>(16, 0, 0);
        send(emu_kernel_2, 16, 64, {all(numbers, 1024), all(sums, 1024), all(ticket, 1), all(carried, 16),
            all(ready, 16)}, order);
        float *shares = array<float>(1000, 1, 1), *sum = array<float>(6, 0, 0);
        send(emu_kernel_6, 6, 64, {all(shares, 1000), all(sum, 6), {1000, 0}}, order, true);
        float* clusters = array<float>(256, 0, 0);
        send(emu_kernel_7, 8, 32, {all(x, 1280), all(clusters, 256)}, order, false, 4, 128);
        printf("%.9g %d %d %.9g %.9g %.9g\n", total[0], sums[77], sums[1023], shares[999], sum[3], clusters[255]);
    }
}
