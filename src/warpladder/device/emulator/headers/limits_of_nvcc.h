// What nvcc takes at most, checked when a program is compiled.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace emu {

// Bytes of a kernel's parameters as a GPU gets them; of a reference those of an address.
template <class... P> constexpr size_t parameter_bytes() {
    size_t bytes = 0;
    auto add = [&](size_t size, size_t alignment) { bytes = (bytes + alignment - 1) / alignment * alignment + size; };
    (add(std::is_reference_v<P> ? sizeof(void*) : sizeof(std::remove_reference_t<P>),
        std::is_reference_v<P> ? alignof(void*) : alignof(std::remove_reference_t<P>)), ...);
    return bytes;
}
template <size_t bytes> constexpr bool takes_parameters() {
    static_assert(bytes <= 32764, "emu: parameters");
    return true;
}

}  // namespace emu

// Scopes without a name in them, for device/emulator/of_host.py: a name there is wrong once a template has an instance.
template <class...> struct emu_within {};
template <auto...> struct emu_within_values {};

// Record of device/emulator/constant_sizes.py; the function is never called.
#define EMU_CONSTANT_BYTES(number, name, where) \
    static __attribute__((used, no_reorder)) void emu_constant_bytes_of_##name##_##number() { \
        asm volatile(".ifndef emu_constants\n.set emu_constants, 0\n.endif\n.set emu_constants, emu_constants + %c0\n" \
            ".if emu_constants > 65536\n.error \"emu: " where ": with " #name " of %c0 bytes the file's __constant__ " \
            "variables take more than the 65536 bytes that nvcc takes: keep it in memory of the device\"\n.endif" \
            : : "i"(sizeof(name))); \
    } \
    static_assert(true)
