// Functions that g++ calls for atomic operations of C++ under -fsanitize=thread: std::atomic, the guards of local
// static variables. Host code of programs has them too, outside of any CUDA thread.
#ifndef EMU_ASAN
#include "worker.h"

namespace emu {

static void announce([[maybe_unused]] const volatile void* p, [[maybe_unused]] unsigned size,
    [[maybe_unused]] int write) {
#ifdef EMU_CHECK
    if (current) emu_atomic(const_cast<const void*>(p), size, write, 2);
#endif
}

}  // namespace emu

EMU_EXPORT void __tsan_atomic_thread_fence(int) {
#ifdef EMU_CHECK
    if (emu::current) return emu_fence(1);
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EMU_EXPORT void __tsan_atomic_signal_fence(int) {}

#define EMU_CHANGE(bits, name)                                                                                         \
    EMU_EXPORT uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* p, uint##bits##_t v, int) {        \
        emu::announce(p, bits / 8, 1);                                                                                 \
        return __atomic_##name(p, v, __ATOMIC_SEQ_CST);                                                                \
    }
#define EMU_ATOMICS(bits)                                                                                              \
    EMU_EXPORT uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                      \
        emu::announce(p, bits / 8, 0);                                                                                 \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                  \
    EMU_EXPORT void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {                   \
        emu::announce(p, bits / 8, 3);                                                                                 \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    EMU_EXPORT uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t v, int) {      \
        emu::announce(p, bits / 8, 1);                                                                                 \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    EMU_CHANGE(bits, fetch_add)                                                                                        \
    EMU_CHANGE(bits, fetch_sub)                                                                                        \
    EMU_CHANGE(bits, fetch_and)                                                                                        \
    EMU_CHANGE(bits, fetch_or)                                                                                         \
    EMU_CHANGE(bits, fetch_xor)                                                                                        \
    EMU_CHANGE(bits, fetch_nand)                                                                                       \
    EMU_EXPORT int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* p, uint##bits##_t* was,      \
        uint##bits##_t v, int, int) {                                                                                  \
        emu::announce(p, bits / 8, 1);                                                                                 \
        return __atomic_compare_exchange_n(p, was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                      \
    }                                                                                                                  \
    EMU_EXPORT int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t* p, uint##bits##_t* was,        \
        uint##bits##_t v, int first, int last) {                                                                       \
        return __tsan_atomic##bits##_compare_exchange_strong(p, was, v, first, last);                                  \
    }
EMU_ATOMICS(8)
EMU_ATOMICS(16)
EMU_ATOMICS(32)
EMU_ATOMICS(64)
#endif
