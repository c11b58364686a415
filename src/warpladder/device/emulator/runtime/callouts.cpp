// Functions that g++ calls before each access under -fsanitize=thread, and where a check of -fsanitize=undefined fails.
// Kernel threads call them; the sanitizers' own runtimes are not linked. In the fast mode only sources with volatile
// accesses are compiled so, and only these accesses count.
#ifndef EMU_ASAN
#include "worker.h"

#define EMU_CALLER __builtin_return_address(0)
#define EMU_CALLOUTS(size)                                                                                             \
    EMU_EXPORT void __tsan_read##size(void* p) { emu::read<size>(p, EMU_CALLER); }                                     \
    EMU_EXPORT void __tsan_write##size(void* p) { emu::write<size>(p, EMU_CALLER); }                                   \
    EMU_EXPORT void __tsan_unaligned_read##size(void* p) { emu::access(p, size, false, EMU_CALLER); }                  \
    EMU_EXPORT void __tsan_unaligned_write##size(void* p) { emu::access(p, size, true, EMU_CALLER); }                  \
    EMU_EXPORT void __tsan_volatile_read##size(void* p) { emu::volatile_read(p, size, EMU_CALLER); }                   \
    EMU_EXPORT void __tsan_volatile_write##size(void* p) { emu::volatile_write(p, size, EMU_CALLER); }                 \
    EMU_EXPORT void __tsan_unaligned_volatile_read##size(void* p) { emu::volatile_read(p, size, EMU_CALLER); }         \
    EMU_EXPORT void __tsan_unaligned_volatile_write##size(void* p) { emu::volatile_write(p, size, EMU_CALLER); }

namespace emu {

// Lanes that pass numbers on through volatile memory count on running in step, as GPUs before Volta had them and later
// ones mostly do: before each access all others get as far. The checker reports it. A thread that reads one place of
// global memory again waits for others, and needs no turn for each time.
static void in_step(void* p) {
    bool is_passed = self().polled != p || block_of(self()).memory.holds(p);
    if (is_passed && !worker_here->here->holds(p)) worker_here->give_way(self());
}
#ifdef EMU_CHECK
static void access(void* address, size_t size, bool write, const void* code) {
    checker.access(address, size, write, 0, code);
}
template <unsigned size> [[gnu::noinline]] static void reads_first(void* address, const void* code) {
#ifndef EMU_COUNT
    if (checker.reads_quickly<size>(uintptr_t(address), code)) return;
#endif
    checker.access(address, size, false, 0, code);
}
template <unsigned size> EMU_INLINE void read(void* address, const void* code) {
#ifndef EMU_COUNT
    if (checker.reads_again<size>(uintptr_t(address), code)) return;
#endif
    reads_first<size>(address, code);
}
template <unsigned size> EMU_INLINE void write(void* address, const void* code) {
#ifndef EMU_COUNT
    if (checker.writes_quickly<size>(uintptr_t(address), code)) return;
#endif
    checker.access(address, size, true, 0, code);
}
static void volatile_access(void* address, unsigned size, bool write, const void* code) {
    if (!current) return;
    in_step(address);
    checker.access(address, size, write, 4, code);
    if (worker_here->here->holds(address)) return;
    if (!write) poll(self(), address, size < 8 ? size : 8, code);
    checker.synchronise(self(), address, write, 2);
}
static void volatile_read(void* p, unsigned size, const void* code) { volatile_access(p, size, false, code); }
static void volatile_write(void* p, unsigned size, const void* code) { volatile_access(p, size, true, code); }
#else
static void access(void*, size_t, bool, const void*) {}
template <unsigned> void read(void*, const void*) {}
template <unsigned> void write(void*, const void*) {}
static void volatile_read(void* p, unsigned size, const void* code) {
    if (!current) return;  // host code has volatile variables too
    in_step(p);
    poll(self(), p, size < 8 ? size : 8, code);
}
static void volatile_write(void* p, unsigned, const void*) {
    if (current) in_step(p);
}
#endif

}  // namespace emu

EMU_CALLOUTS(1)
EMU_CALLOUTS(2)
EMU_CALLOUTS(4)
EMU_CALLOUTS(8)
EMU_CALLOUTS(16)
EMU_EXPORT void __tsan_read_range(void* p, size_t size) { emu::access(p, size, false, EMU_CALLER); }
EMU_EXPORT void __tsan_write_range(void* p, size_t size) { emu::access(p, size, true, EMU_CALLER); }
EMU_EXPORT void __tsan_init() {}
EMU_EXPORT void __tsan_func_entry(void*) {}
EMU_EXPORT void __tsan_func_exit() {}
// Pointer to the functions of an object with virtual ones: its constructor stores it.
EMU_EXPORT void __tsan_vptr_update(void** p, void*) { emu::access(p, sizeof *p, true, EMU_CALLER); }
EMU_EXPORT void __tsan_vptr_read(void** p) { emu::access(p, sizeof *p, false, EMU_CALLER); }

#ifdef EMU_CHECK
namespace emu {

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

struct OutOfBounds {
    emu::Site site;
    emu::Type *array, *index;
};
EMU_EXPORT void __ubsan_handle_out_of_bounds(OutOfBounds* data, uintptr_t index) {
    std::string what = "uses index " + std::to_string(int64_t(index)) + " of {array}, " + emu::plain(data->array->name);
    emu::checker.out_of_bounds(what, {data->site.file, int(data->site.line), nullptr, int(data->site.column)});
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
        emu::checker.misaligned(address, alignment, emu::plain(data->type->name),
            {data->site.file, int(data->site.line)});
}

struct Overflow {
    emu::Site site;
    emu::Type* type;
};
EMU_EXPORT void __ubsan_handle_divrem_overflow(Overflow* data, uintptr_t, uintptr_t divisor) {
    if (divisor == 0) emu_trap("division of an integer by zero", data->site.file, int(data->site.line));
    emu_trap("division overflows", data->site.file, int(data->site.line));
}

struct FloatCast {
    emu::Site site;
    emu::Type *from, *to;
};
EMU_EXPORT void __ubsan_handle_float_cast_overflow(FloatCast* data, uintptr_t) {
    if (!emu::current) return;
    emu::checker.conversion(emu::plain(data->from->name) + " to " + emu::plain(data->to->name),
        {data->site.file, int(data->site.line)});
}
#endif
#endif
