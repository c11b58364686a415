// Threads that wait for others by reading the same memory again and again must let them run. Kernel threads call this.
#include "worker.h"

namespace emu {

void poll(Thread& me, const void* address, unsigned size, const void* code) {
    uint64_t found = emu_load(address, size);
    if (me.polled == address && me.found == found) {
        me.polls_at = code;
        if (++me.polls % 64 == 0) worker_here->yield(me);
    } else {
        if (me.polls >= 64) worker_here->progress();
        me.polled = address, me.found = found, me.polls = 0;
    }
}

}  // namespace emu

#ifdef EMU_ASAN
// g++ has no call-outs before volatile accesses next to AddressSanitizer. In sources that have some it calls this in each
// basic block, and a thread that has run many lets others run: it may poll.
EMU_EXPORT void __sanitizer_cov_trace_pc() {
    if (!emu::current) return;
    emu::Worker& worker = *emu::worker_here;
    if (!worker.combining && ++worker.basic_blocks % 1024 == 0) worker.give_way(emu::self());
}
#endif

// In the fast mode only volatile accesses matter; sources that have some are compiled with call-outs for them.
#if !defined(EMU_CHECK) && !defined(EMU_ASAN)
#define EMU_CALLER __builtin_return_address(0)
#define EMU_CALLOUTS(size)                                                                                             \
    EMU_EXPORT void __tsan_read##size(void*) {}                                                                        \
    EMU_EXPORT void __tsan_write##size(void*) {}                                                                       \
    EMU_EXPORT void __tsan_unaligned_read##size(void*) {}                                                              \
    EMU_EXPORT void __tsan_unaligned_write##size(void*) {}                                                             \
    EMU_EXPORT void __tsan_volatile_read##size(void* p) {                                                              \
        emu::poll(emu::self(), p, size < 8 ? size : 8, EMU_CALLER);                                                    \
    }                                                                                                                  \
    EMU_EXPORT void __tsan_volatile_write##size(void*) {}
EMU_CALLOUTS(1)
EMU_CALLOUTS(2)
EMU_CALLOUTS(4)
EMU_CALLOUTS(8)
EMU_CALLOUTS(16)
EMU_EXPORT void __tsan_read_range(void*, size_t) {}
EMU_EXPORT void __tsan_write_range(void*, size_t) {}
EMU_EXPORT void __tsan_init() {}
EMU_EXPORT void __tsan_vptr_update(void**, void*) {}
EMU_EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define EMU_ATOMICS(bits)                                                                                              \
    EMU_EXPORT uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t* p, int) {                               \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                  \
    EMU_EXPORT void __tsan_atomic##bits##_store(uint##bits##_t* p, uint##bits##_t v, int) {                            \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    EMU_EXPORT int __tsan_atomic##bits##_compare_exchange_strong(                                                      \
        uint##bits##_t* p, uint##bits##_t* was, uint##bits##_t v, int, int) {                                          \
        return __atomic_compare_exchange_n(p, was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                      \
    }
EMU_ATOMICS(16)
EMU_ATOMICS(32)
EMU_ATOMICS(64)
#endif
