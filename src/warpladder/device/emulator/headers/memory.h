// Loads and stores with cache hints are plain ones; copies of memory are announced to the checker.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "interface.h"

// Threads may poll by it: a volatile access.
template <class T> EMU_INLINE T __ldcv(const T* address) {
    if constexpr (std::is_scalar_v<T>) return *static_cast<const volatile T*>(address);
    else return *address;
}
#define EMU_LOAD(name) template <class T> EMU_INLINE T name(const T* address) { return *address; }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
#undef EMU_LOAD
#define EMU_STORE(name) template <class T, class V> EMU_INLINE void name(T* address, V value) { *address = value; }
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
#undef EMU_STORE

#ifdef EMU_CHECK
EMU_INLINE void* emu_memcpy(void* to, const void* from, size_t size) {
    emu_touch(from, size, 0);
    emu_touch(to, size, 1);
    return __builtin_memcpy(to, from, size);
}
EMU_INLINE void* emu_memset(void* to, int byte, size_t size) {
    emu_touch(to, size, 1);
    return __builtin_memset(to, byte, size);
}
#define memcpy emu_memcpy
#define memset emu_memset
#define malloc(bytes) emu_heap(bytes)
#define free(memory) emu_unheap(memory)
#define EMU_HEAP_OPERATORS                                                                         \
    EMU_WEAK void* operator new(size_t bytes) { return emu_heap(bytes); }                          \
    EMU_WEAK void* operator new[](size_t bytes) { return emu_heap(bytes); }                        \
    EMU_WEAK void operator delete(void* memory) noexcept { emu_unheap(memory); }                   \
    EMU_WEAK void operator delete[](void* memory) noexcept { emu_unheap(memory); }                 \
    EMU_WEAK void operator delete(void* memory, size_t) noexcept { emu_unheap(memory); }           \
    EMU_WEAK void operator delete[](void* memory, size_t) noexcept { emu_unheap(memory); }
#else
#define EMU_HEAP_OPERATORS
#endif
#define EMU_WEAK __attribute__((weak, no_sanitize_thread))

EMU_UNSEEN inline unsigned __isShared(const void* p) {
    size_t offset = size_t(static_cast<const char*>(p) - emu::current->block->shared);
    return offset < emu::current->block->dynamic_offset + emu::current->block->dynamic_bytes;
}
inline unsigned __isGlobal(const void* p) { return !__isShared(p); }
