// Shared memory. A declaration `__shared__ float a[16];` in a source is rewritten, before it is compiled, to
//     struct emu_0 { float a[16]; ... }; auto& a = emu::shared<emu_0>().a;
// so that each block has its own memory, with gaps that show an overrun, and so that the variable's name is known.
#pragma once
#include "interface.h"

namespace emu {

#ifdef EMU_CHECK
constexpr unsigned GAP = 256;  // bytes after each variable that belong to none
#elif defined(EMU_ASAN)
constexpr unsigned GAP = 128;
#else
constexpr unsigned GAP = 0;
#endif

// Zero when the library is loaded, before any variable is added: the order of initialisation does not matter.
inline constinit Layout layout{nullptr, 0};

inline unsigned add(Place& place) {
    unsigned to = place.alignment < 16 ? 16 : place.alignment;
    place.offset = (layout.bytes + to - 1) / to * to;
    place.next = layout.first;
    layout.first = &place;
    layout.bytes = place.offset + place.bytes + GAP;
    return place.offset;
}

// S is the struct around one variable; each instance of a template has its own.
template <class S> struct Placed {
    static inline Place place{S::emu_name(), S::emu_function(), S::emu_file(), S::emu_line(), sizeof(S),
        S::emu_element(), alignof(S), 0, nullptr, false};
    static inline const unsigned offset = add(place);
};

template <class S> inline __attribute__((always_inline)) S& shared() {
    (void)Placed<S>::offset;  // has the place added
#ifdef EMU_CHECK
    return *static_cast<S*>(emu_shared(&Placed<S>::place));
#else
    if constexpr (sizeof(S) > LARGE_SHARED) Placed<S>::place.reached = true;
    return *reinterpret_cast<S*>(current->block->shared + Placed<S>::offset);
#endif
}

template <class T> inline T* dynamic_shared(const char* name) {
#ifdef EMU_CHECK
    return static_cast<T*>(emu_dynamic_shared(name, sizeof(std::remove_all_extents_t<T>)));
#else
    (void)name;
    return reinterpret_cast<T*>(current->block->shared + current->block->dynamic_offset);
#endif
}

// A shared variable outside of functions: S is the struct around it.
template <class S, auto member> struct SharedVariable {
    using T = std::remove_reference_t<decltype(std::declval<S&>().*member)>;
    operator std::conditional_t<std::is_array_v<T>, std::decay_t<T>, T&>() const { return shared<S>().*member; }
    template <class V> T& operator=(const V& value) const { return shared<S>().*member = value; }
    T* operator&() const { return &(shared<S>().*member); }
};

// `extern __shared__ float s[];` outside of functions.
template <class T> struct DynamicShared {
    const char* name;
    operator T*() const { return dynamic_shared<T>(name); }
};

}  // namespace emu
