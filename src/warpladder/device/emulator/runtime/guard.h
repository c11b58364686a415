// A wild access, a division by zero, a full stack or a stop in a kernel ends the launch, not the process (guard.cpp).
// In the fast mode, and in the check mode for a full stack; AddressSanitizer has handlers of its own.
#pragma once
#include <setjmp.h>

#include "run.h"

#ifndef EMU_ASAN
#define EMU_GUARD
#endif

namespace emu {

// An OS thread that runs kernel code, and where it goes on after a fault.
struct Guard {
    sigjmp_buf back;
    const Run& run;
    int signal = 0;            // that ended the kernel
    uintptr_t code = 0;        // place in the kernel's module, or 0
    const void* address = nullptr;  // that it could not reach
    bool is_full = false;           // the stack of the CUDA thread
    Guard* outer;
    explicit Guard(const Run& now);
    ~Guard();
    Guard(const Guard&) = delete;
    void leave_handler() const;  // which has blocked its signal
    Report report() const;
};

// During its life Ctrl-C and SIGTERM are noted; a launch that does not end soon after is stopped.
class Stoppable {
  public:
    Stoppable();
    ~Stoppable();
    Stoppable(const Stoppable&) = delete;
};

}  // namespace emu
