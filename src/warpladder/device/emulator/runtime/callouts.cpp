// Functions that g++ calls before each access under -fsanitize=thread, and where a check of -fsanitize=undefined fails.
// Kernel threads call them in the check mode; the sanitizers' own runtimes are not linked.
#ifdef EMU_CHECK
#include "worker.h"

using emu::checker;

#define EMU_CALLER __builtin_return_address(0)
#define EMU_CALLOUTS(size)                                                                                             \
    EMU_EXPORT void __tsan_read##size(void* p) { checker.access(p, size, false, 0, EMU_CALLER); }                      \
    EMU_EXPORT void __tsan_write##size(void* p) { checker.access(p, size, true, 0, EMU_CALLER); }                      \
    EMU_EXPORT void __tsan_unaligned_read##size(void* p) { checker.access(p, size, false, 0, EMU_CALLER); }            \
    EMU_EXPORT void __tsan_unaligned_write##size(void* p) { checker.access(p, size, true, 0, EMU_CALLER); }            \
    EMU_EXPORT void __tsan_volatile_read##size(void* p) { emu::volatile_access(p, size, false, EMU_CALLER); }          \
    EMU_EXPORT void __tsan_volatile_write##size(void* p) { emu::volatile_access(p, size, true, EMU_CALLER); }          \
    EMU_EXPORT void __tsan_unaligned_volatile_read##size(void* p) {                                                    \
        emu::volatile_access(p, size, false, EMU_CALLER);                                                              \
    }                                                                                                                  \
    EMU_EXPORT void __tsan_unaligned_volatile_write##size(void* p) {                                                   \
        emu::volatile_access(p, size, true, EMU_CALLER);                                                               \
    }

namespace emu {

static void volatile_access(void* address, unsigned size, bool write, const void* code) {
    if (!current) return;
    Thread& me = self();
    checker.access(address, size, write, 4, code);
    if (worker_here->here->holds(address)) return;
    if (!write) poll(me, address, size < 8 ? size : 8, code);
    checker.synchronise(me, address, write, 2);
}

struct Site {
    const char* file;
    unsigned line, column;
};
struct Type {
    unsigned short kind, info;
    char name[1];
};

static std::string plain(const char* quoted) {  // the compiler writes 'float [16]'
    std::string name = quoted;
    if (name.size() > 1 && name[0] == '\'') name = name.substr(1, name.size() - 2);
    for (const char* word : {"const ", "struct "})
        if (name.rfind(word, 0) == 0) name = name.substr(strlen(word));
    return name;
}

}  // namespace emu

EMU_CALLOUTS(1)
EMU_CALLOUTS(2)
EMU_CALLOUTS(4)
EMU_CALLOUTS(8)
EMU_CALLOUTS(16)
EMU_EXPORT void __tsan_read_range(void* p, size_t size) { checker.access(p, size, false, 0, EMU_CALLER); }
EMU_EXPORT void __tsan_write_range(void* p, size_t size) { checker.access(p, size, true, 0, EMU_CALLER); }
EMU_EXPORT void __tsan_init() {}
EMU_EXPORT void __tsan_func_entry(void*) {}
EMU_EXPORT void __tsan_func_exit() {}
EMU_EXPORT void __tsan_vptr_update(void**, void*) {}
EMU_EXPORT void __tsan_vptr_read(void**) {}
EMU_EXPORT void __tsan_atomic_thread_fence(int) { emu_fence(1); }

struct OutOfBounds {
    emu::Site site;
    emu::Type *array, *index;
};
EMU_EXPORT void __ubsan_handle_out_of_bounds(OutOfBounds* data, uintptr_t index) {
    std::string what = "uses index " + std::to_string(int64_t(index)) + " of {array}, " + emu::plain(data->array->name);
    checker.out_of_bounds(what, {data->site.file, int(data->site.line), nullptr, int(data->site.column)});
}

struct TypeMismatch {
    emu::Site site;
    emu::Type* type;
    unsigned char log_alignment, kind;
};
EMU_EXPORT void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, const void* address) {
    unsigned alignment = 1u << data->log_alignment;
    if (!emu::current) return;
    if (uintptr_t(address) % alignment)
        checker.misaligned(address, alignment, emu::plain(data->type->name), {data->site.file, int(data->site.line)});
}

struct Overflow {
    emu::Site site;
    emu::Type* type;
};
EMU_EXPORT void __ubsan_handle_divrem_overflow(Overflow* data, uintptr_t, uintptr_t divisor) {
    if (divisor == 0) emu_trap("division of an integer by zero", data->site.file, int(data->site.line));
    emu_trap("division overflows", data->site.file, int(data->site.line));
}
#endif
