// Ends of the host's arrays, for copies: of what the program's own malloc and new gave, of its global variables by the
// executable's table of symbols, and of a local variable by the end of its function's part of the stack.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <unordered_map>

#include "host.h"

namespace emu {

struct Piece {
    size_t bytes;
    uintptr_t code;  // after the call, in the program; 0 for that of a container
};
static auto& pieces = *new std::map<uintptr_t, Piece>;
static auto& guard = *new std::mutex;

// A library may have freed a piece, and its place be another's: the C library keeps a size before each piece.
static bool is_there(uintptr_t low, size_t bytes) {
    size_t word = reinterpret_cast<const size_t*>(low)[-1], own = word & 2 ? 16 : 8, all = word & ~size_t(7);
    return all >= bytes + own && all < bytes + (word & 2 ? 3 * 4096 : 64);
}

uintptr_t program_base() {
    Dl_info program;
    return dladdr((void*)getauxval(AT_ENTRY), &program) ? uintptr_t(program.dli_fbase) : 0;
}

static HostArray on_heap(uintptr_t at) {
    std::lock_guard lock(guard);
    auto after = pieces.upper_bound(at);
    if (after == pieces.begin()) return {};
    auto& [low, piece] = *--after;
    if (at - low >= std::max(piece.bytes, size_t(1)) || !is_there(low, piece.bytes)) return {};
    return {"an array of the host of", at - low, piece.bytes, piece.code ? piece.code - program_base() : 0};
}

struct Variable {
    size_t bytes;
    std::string name;
};

// Global variables of the program by their addresses.
static const std::map<uintptr_t, Variable>& variables() {
    static auto& found = *new std::map<uintptr_t, Variable>;
    static bool is_read = false;
    if (std::exchange(is_read, true)) return found;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (file < 0 || fstat(file, &facts)) return found;
    void* mapped = mmap(nullptr, size_t(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return found;
    auto* bytes = static_cast<const char*>(mapped);
    auto& head = *reinterpret_cast<const ElfW(Ehdr)*>(bytes);
    auto* sections = reinterpret_cast<const ElfW(Shdr)*>(bytes + head.e_shoff);
    for (unsigned i = 0; i < head.e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        auto* symbols = reinterpret_cast<const ElfW(Sym)*>(bytes + sections[i].sh_offset);
        const char* names = bytes + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
            auto& symbol = symbols[s];
            if ((symbol.st_info & 15) != STT_OBJECT || !symbol.st_size || symbol.st_shndx == SHN_UNDEF) continue;
            const char* name = names + symbol.st_name;
            char* plain = strncmp(name, "_Z", 2) ? nullptr : abi::__cxa_demangle(name, nullptr, nullptr, nullptr);
            uintptr_t low = (head.e_type == ET_DYN ? program_base() : 0) + symbol.st_value;
            found[low] = {symbol.st_size, plain ? plain : name};
            free(plain);
        }
    }
    munmap(mapped, size_t(facts.st_size));
    return found;
}

static HostArray global(uintptr_t at) {
    auto after = variables().upper_bound(at);
    if (after == variables().begin()) return {};
    auto& [low, variable] = *std::prev(after);
    if (at - low >= variable.bytes) return {};
    return {"the variable " + variable.name + " of", at - low, variable.bytes, 0};
}

// A function's part of the stack ends below the address to which it returns.
static HostArray on_stack(uintptr_t at) {
    struct Search {
        uintptr_t at, low, high, code;
        bool is_program;
    } search{at, 0, 0, 0, false};
    _Unwind_Backtrace([](_Unwind_Context* frame, void* to) {
        auto& search = *static_cast<Search*>(to);
        uintptr_t bottom = _Unwind_GetCFA(frame);
        if (search.low && search.at >= search.low && search.at < bottom) {
            search.high = bottom - sizeof(void*);
            return _URC_END_OF_STACK;
        }
        search.low = bottom, search.code = _Unwind_GetIP(frame);
        return search.at < bottom ? _URC_END_OF_STACK : _URC_NO_REASON;
    }, &search);
    Dl_info module;
    if (!search.high || at >= search.high || !dladdr((void*)search.code, &module)
        || uintptr_t(module.dli_fbase) != program_base()) return {};
    return {"a local variable of host code of at most", 0, search.high - at, 0};
}

HostArray host_array(const void* pointer) {
    auto at = uintptr_t(pointer);
    HostArray found = on_heap(at);
    if (found.name.empty()) found = global(at);
    return found.name.empty() ? on_stack(at) : found;
}

static pthread_t launching;

HostArray of_host(const void* pointer) {
    auto at = uintptr_t(pointer);
    if (HostArray found = on_heap(at); !found.name.empty()) return found;
    pthread_attr_t facts;
    void* low = nullptr;
    size_t bytes = 0;
    if (!launching || pthread_getattr_np(launching, &facts)) return {};
    pthread_attr_getstack(&facts, &low, &bytes);
    pthread_attr_destroy(&facts);
    if (at - uintptr_t(low) >= bytes) return {};
    return {"a local variable of host code", 0, 0, 0};
}

// Pointers of the host in arguments that are structs: a kernel may have them, and not follow them. A checked launch
// sees whether it does.
void pointers_in_arguments([[maybe_unused]] const Request& r) {
    launching = pthread_self();
#ifndef EMU_CHECK
    for (unsigned i = 0; i < r.count; ++i)
        for (size_t at = 0; !r.pointers[i] && at + sizeof(uintptr_t) <= r.sizes[i + 1]; at += sizeof(uintptr_t)) {
            uintptr_t word;
            memcpy(&word, static_cast<const char*>(r.body[i + 1]) + at, sizeof word);
            HostArray array = on_heap(word);
            if (array.name.empty() || array.offset || !array.code || r.config.is_library) continue;
            report("remark", "host pointer", "argument " + std::to_string(i + 1) + " of kernel " + r.name
                + ", launched at {0}, holds the address of " + array.name + " " + std::to_string(array.bytes)
                + " bytes (allocated at {1}), which a kernel on a GPU cannot follow; --check sees if it does", "",
                {r.config.file, r.config.line}, r.name, array.code);
        }
#endif
}

}  // namespace emu

EMU_EXPORT int emu_is_kernel() { return emu::current != nullptr; }
EMU_EXPORT void emu_host_allocated(void* memory, size_t bytes, const void* code) {
    if (!memory || emu::current) return;
    std::lock_guard lock(emu::guard);
    emu::pieces[uintptr_t(memory)] = {bytes, uintptr_t(code)};
}
// False for memory that free() and delete must not get.
EMU_EXPORT int emu_host_freed(void* memory, const void* code) {
    if (!memory || emu::current) return true;
    {
        std::lock_guard lock(emu::guard);
        if (emu::pieces.erase(uintptr_t(memory))) return true;
    }
    emu::Lock lock;
    emu::Allocation* a = emu::find(memory);
    if (!a || !a->mapped) return true;
    emu::report_text("problem", "", "free\x1fhost code at {0} gives free() or delete what " + std::string(a->type
        == cudaMemoryTypeHost ? "cudaFreeHost" : "cudaFree") + " is for: " + emu::described(*a) + '\x1f' + a->name
        + "\x1f\x1f\x1f+" + std::to_string(uintptr_t(code) - emu::program_base()) + "\x1f\x1e");
    return false;
}
