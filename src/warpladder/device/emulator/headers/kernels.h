// Entry points of a compiled module. The runtime's OS threads call a kernel with an array of pointers to its arguments;
// it runs the current CUDA thread, and those after it.
#pragma once
#include <type_traits>
#include <utility>

#include "interface.h"
#include "limits_of_nvcc.h"

namespace emu {

template <auto kernel> struct Call;
template <class... A, void (*kernel)(A...)> struct Call<kernel> {
    static_assert(takes_parameters<parameter_bytes<A...>()>());
    // Run the current thread, and as long as the block is calm the threads that begin after it, all on this stack.
    EMU_UNSEEN static void threads(A... arguments) {
        BlockView& block = *current->block;
        char* first = block.first;
        const unsigned *order = block.order, count = block.count, stride = block.stride;
        for (unsigned next = block.begun;;) {
#ifdef EMU_COUNT
            emu_begins();
#endif
            kernel(arguments...);
            if (!block.calm || next == count) return;
            current = reinterpret_cast<Thread*>(first + size_t(order[next]) * stride);
            block.begun = ++next;
        }
    }
    template <size_t... I> EMU_UNSEEN static void with(void** arguments, std::index_sequence<I...>) {
        threads(*static_cast<std::remove_cv_t<A>*>(arguments[I])...);
    }
    EMU_UNSEEN static void run(void** arguments) { with(arguments, std::index_sequence_for<A...>{}); }
};

// Largest number of threads in a block, the first argument of __launch_bounds__; the others are not used.
template <class... Others>
constexpr int most_threads(int threads, Others...) {
    return threads;
}

}  // namespace emu

// Exported although nothing in this file calls it; -fwhole-program drops other unused functions.
#define EMU_ENTRY __attribute__((externally_visible))
#define EMU_KERNEL(number, ...) \
    EMU_EXPORT EMU_ENTRY void emu_kernel_##number(void** arguments) { emu::Call<(&__VA_ARGS__)>::run(arguments); }
#define EMU_BOUNDS(number, names, ...) \
    EMU_EXPORT EMU_ENTRY int emu_bounds_##number() { names return emu::most_threads(__VA_ARGS__); }
#define EMU_CONSTANT(number, ...) \
    EMU_EXPORT EMU_ENTRY void* emu_constant_##number() { return (void*)&__VA_ARGS__; } \
    EMU_EXPORT EMU_ENTRY unsigned emu_constant_bytes_##number() { return sizeof(__VA_ARGS__); }
#define EMU_MODULE EMU_HEAP_OPERATORS EMU_EXPORT EMU_ENTRY const emu::Layout* emu_layout() { return &emu::layout; }
