// Allocations by a program's own code: the linker puts these functions in the place of the C and C++ library's
// (--wrap). Those of the host are noted, so that a copy knows the length of an array (host_arrays.cpp); in a kernel
// they are the emulator's.
#include <cstddef>

#define WRAP_NEW(name, parameters, arguments)                                                                          \
    void* __real_##name parameters;                                                                                    \
    void* __wrap_##name parameters { return noted(emu_is_kernel() ? emu_heap(n) : __real_##name arguments, n,          \
        __builtin_return_address(0)); }
#define WRAP_DELETE(name, parameters, arguments)                                                                       \
    void __real_##name parameters;                                                                                     \
    void __wrap_##name parameters {                                                                                    \
        if (emu_is_kernel()) return emu_unheap(p);                                                                     \
        if (emu_host_freed(p, __builtin_return_address(0))) __real_##name arguments;                                   \
    }

extern "C" {

void* emu_heap(size_t bytes);
void emu_unheap(void* memory);
int emu_is_kernel();
void emu_host_allocated(void* memory, size_t bytes, const void* code);
int emu_host_freed(void* memory, const void* code);

static void* noted(void* memory, size_t bytes, const void* code) {
    emu_host_allocated(memory, bytes, code);
    return memory;
}

WRAP_NEW(malloc, (size_t n), (n))
WRAP_NEW(_Znwm, (size_t n), (n))
WRAP_NEW(_Znam, (size_t n), (n))
WRAP_NEW(_ZnwmRKSt9nothrow_t, (size_t n, const void* t), (n, t))
WRAP_NEW(_ZnamRKSt9nothrow_t, (size_t n, const void* t), (n, t))
WRAP_DELETE(free, (void* p), (p))
WRAP_DELETE(_ZdlPv, (void* p), (p))
WRAP_DELETE(_ZdaPv, (void* p), (p))
WRAP_DELETE(_ZdlPvm, (void* p, size_t n), (p, n))
WRAP_DELETE(_ZdaPvm, (void* p, size_t n), (p, n))

void* __real_calloc(size_t count, size_t bytes);
void* __wrap_calloc(size_t count, size_t bytes) {
    return noted(__real_calloc(count, bytes), count * bytes, __builtin_return_address(0));
}
void* __real_realloc(void* old, size_t n);
void* __wrap_realloc(void* old, size_t n) {
    if (!emu_host_freed(old, __builtin_return_address(0))) return nullptr;
    void* made = __real_realloc(old, n);
    return noted(made, n, __builtin_return_address(0));
}

}
