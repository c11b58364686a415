// Atomic operations, called by kernel threads. They are always inlined, so that a report names the kernel's line. In a
// checked build the operation is first reported to the checker, which does not see the change of the value itself:
// there is one OS thread.
#pragma once
#include <type_traits>

#include "interface.h"

namespace emu {

template <class T> struct Operand {
    static_assert(sizeof(T) >= 2, "atomic operations are on 2, 4 or 8 bytes");
    using type = T;
};
template <class T> using as = typename Operand<T>::type;  // no deduction from this argument

template <class T> using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4,
    uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

// A thread that finds the same value at the same address repeatedly polls: others must run.
EMU_INLINE void polled(const void* address, uint64_t found) {
    Thread& me = *current;
    if (me.polled == address && me.found == found) {
        if (++me.polls % 64 == 0) emu_yield();
    } else {
        if (me.polls >= 64) emu_progress();
        me.polled = address, me.found = found, me.polls = 0;
        if (++me.reads % 1024 == 0) emu_give_way();
    }
}

// scope: 0 the block's threads, 1 the device's, 2 the system's. how: 2 if the value stays if it is another one, 4 if
// nothing uses what was there.
template <int scope = 1, int how = 1, class T, class F> EMU_INLINE T update(T* address, F change) {
    static_assert(sizeof(T) <= 2 || sizeof(T) == 4 || sizeof(T) == 8, "atomic operations are on 2, 4 or 8 bytes");
    using B = Bits<T>;
#ifdef EMU_CHECK
    emu_atomic(address, sizeof(T), how, scope);
    B bits = B(emu_load(address, sizeof(T)));
    T old = __builtin_bit_cast(T, bits);
    T now = change(old);
    emu_store(address, sizeof(T), __builtin_bit_cast(B, now));
    return old;
#else
    B* place = reinterpret_cast<B*>(address);
    B bits = __atomic_load_n(place, __ATOMIC_SEQ_CST);
    for (;;) {
        T old = __builtin_bit_cast(T, bits);
        T now = change(old);
        if (__atomic_compare_exchange_n(place, &bits, __builtin_bit_cast(B, now), false, __ATOMIC_SEQ_CST,
            __ATOMIC_SEQ_CST)) {
            polled(address, bits);
            return old;
        }
    }
#endif
}

template <class T> EMU_INLINE T load(const T* address) {
    using B = Bits<T>;
#ifdef EMU_CHECK
    emu_atomic(address, sizeof(T), 0, 1);
    return __builtin_bit_cast(T, B(emu_load(address, sizeof(T))));
#else
    B bits = __atomic_load_n(reinterpret_cast<const B*>(address), __ATOMIC_SEQ_CST);
    polled(address, bits);
    return __builtin_bit_cast(T, bits);
#endif
}

template <int scope = 1, class T> EMU_INLINE void store(T* address, std::type_identity_t<T> value) {
    using B = Bits<T>;
#ifdef EMU_CHECK
    emu_atomic(address, sizeof(T), 3, scope);
    emu_store(address, sizeof(T), __builtin_bit_cast(B, value));
#else
    __atomic_store_n(reinterpret_cast<B*>(address), __builtin_bit_cast(B, value), __ATOMIC_SEQ_CST);
#endif
}

// Types of 16 bytes have two operations, which compare bits.
template <class T> concept Wide = sizeof(T) == 16 && alignof(T) == 16;
template <int scope, Wide T> EMU_UNSEEN T exchanged(T* address, const T* expected, T value) {
    alignas(16) unsigned char old[16];
    emu_exchange_wide(address, expected, &value, old);
#ifndef EMU_CHECK
    polled(address, *reinterpret_cast<uint64_t*>(old));
#endif
    return *reinterpret_cast<T*>(old);
}

}  // namespace emu

#define EMU_ATOMIC(name, scope)                                                                                        \
    template <class T> EMU_INLINE T atomicAdd##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return T(o + v); });                                                   \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicSub##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return T(o - v); });                                                   \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicExch##name(T* p, emu::as<T> v) {                                             \
        return emu::update<scope>(p, [=](T) { return v; });                                                            \
    }                                                                                                                  \
    template <class T> EMU_INLINE void emu_unused_atomicExch##name(T* p, emu::as<T> v) {                               \
        if constexpr (sizeof(T) == 16) atomicExch##name(p, v);                                                         \
        else emu::update<scope, 4>(p, [=](T) { return v; });                                                           \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicMin##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return v < o ? v : o; });                                              \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicMax##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return o < v ? v : o; });                                              \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicAnd##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return T(o & v); });                                                   \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicOr##name(T* p, emu::as<T> v) {                                               \
        return emu::update<scope>(p, [=](T o) { return T(o | v); });                                                   \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicXor##name(T* p, emu::as<T> v) {                                              \
        return emu::update<scope>(p, [=](T o) { return T(o ^ v); });                                                   \
    }                                                                                                                  \
    template <class T> EMU_INLINE T atomicCAS##name(T* p, emu::as<T> c, emu::as<T> v) {                                \
        return emu::update<scope, 2>(p, [=](T o) { return o == c ? v : o; });                                       \
    }                                                                                                                  \
    template <emu::Wide T> EMU_INLINE T atomicExch##name(T* p, emu::as<T> v) {                                         \
        emu_atomic(p, 16, 1, scope);                                                                                   \
        return emu::exchanged<scope, T>(p, nullptr, v);                                                                \
    }                                                                                                                  \
    template <emu::Wide T> EMU_INLINE T atomicCAS##name(T* p, emu::as<T> c, emu::as<T> v) {                            \
        emu_atomic(p, 16, 1, scope);                                                                                   \
        return emu::exchanged<scope, T>(p, &c, v);                                                                     \
    }                                                                                                                  \
    EMU_INLINE unsigned atomicInc##name(unsigned* p, unsigned v) {                                                     \
        return emu::update<scope>(p, [=](unsigned o) { return o >= v ? 0u : o + 1; });                                 \
    }                                                                                                                  \
    EMU_INLINE unsigned atomicDec##name(unsigned* p, unsigned v) {                                                     \
        return emu::update<scope>(p, [=](unsigned o) { return o == 0 || o > v ? v : o - 1; });                         \
    }

EMU_ATOMIC(, 1)
EMU_ATOMIC(_block, 0)
EMU_ATOMIC(_system, 2)
#undef EMU_ATOMIC
