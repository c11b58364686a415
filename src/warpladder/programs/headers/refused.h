// Functions of other libraries that are declared, but not emulated: a program that comes to one ends with its name and
// the line of the call. One that never comes to it runs.
#pragma once
#include "program.h"

EMU_EXPORT void emu_refuse(const char* name, const char* library, const void* address) __attribute__((noreturn));

#define EMU_REFUSED(R, name, library)                               \
    template <class... A> [[gnu::noinline]] R name(const A&...) {   \
        emu_refuse(#name, library, __builtin_return_address(0));    \
    }
