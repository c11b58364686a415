// Asynchronous copies, for the helpers in device/include/async.cuh. AddressSanitizer checks only the kernel's own code,
// so in its mode a copy is made at once.
#pragma once
#include "interface.h"

namespace emu {

// SIZE bytes, of which the first `bytes` are read and the others 0.
template <int SIZE, class T> EMU_INLINE void copy(T* to, const T* from, int bytes) {
#ifdef EMU_ASAN
    for (int i = 0; i < SIZE / int(sizeof(T)); ++i) to[i] = i * int(sizeof(T)) < bytes ? from[i] : T(0);
#else
    emu_copy(to, from, unsigned(bytes), SIZE);
#endif
}
EMU_INLINE void commit_copies() {
#ifndef EMU_ASAN
    emu_commit_copies();
#endif
}
EMU_INLINE void wait_for_copies([[maybe_unused]] unsigned pending) {
#ifndef EMU_ASAN
    emu_wait_for_copies(pending);
#endif
}

}  // namespace emu
