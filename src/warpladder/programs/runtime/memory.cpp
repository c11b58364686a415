// Memory of the device is memory of this process between guard pages, at addresses that 256 divides. Only kernels and
// copies may touch it: while host code runs it is closed, so that an access by the host is a fault here as on a GPU. A
// freed piece stays closed for good.
#include <signal.h>
#include <sys/mman.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <unwind.h>

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "host.h"

namespace emu {

static constexpr size_t GUARD = 1 << 20, PAGE = 4096;

const char* type_name(cudaMemoryType type) {
    return type == cudaMemoryTypeDevice ? "device memory"
        : type == cudaMemoryTypeManaged ? "managed memory" : "page-locked host memory";
}

Allocation* find(const void* pointer) {
    auto& all = host().allocations;
    auto at = all.upper_bound(uintptr_t(pointer));
    if (at == all.begin()) return nullptr;
    Allocation& found = (--at)->second;
    return uintptr_t(pointer) < found.high() || uintptr_t(pointer) == found.low ? &found : nullptr;
}

Allocation* nearest(const void* pointer) {
    for (auto& [low, each] : host().allocations)
        if (each.mapped && uintptr_t(pointer) - (each.mapped - GUARD) < each.pages + 2 * GUARD) return &each;
    return find(pointer);
}

std::string described(const Allocation& a) {
    std::string name = a.name.empty() ? "" : " " + a.name;
    return std::string(type_name(a.type)) + name + " of " + std::to_string(a.bytes) + " bytes (allocated at "
        + place_of(a.file, a.line) + ")";
}

// The allocation in which an address lies if an int has overflowed on the way to it: 2^32 elements further on, and
// beyond those that an int counts.
static Allocation* overflowed(uintptr_t at) {
    for (uintptr_t element : {1, 2, 4, 8, 16})
        for (uintptr_t turns : {1, 2, 3, 4}) {
            const uintptr_t meant = at + (element * turns << 32);
            Allocation* a = find((const void*)meant);
            if (a && !a->freed && meant - a->low >= element << 31) return a;
        }
    return nullptr;
}

// Reason why an access to an address is wrong, in the program's words, or "".
std::string explained(const void* address) {
    Allocation* a = nearest(address);
    uintptr_t at = uintptr_t(address);
    if (at < 4096) return "the pointer is null";
    if (Allocation* large = a ? nullptr : overflowed(at))
        return "the address is that of an index that has exceeded an int, 2,147,483,647, in " + described(*large);
    if (!a) return "the address belongs to no memory of the device: a pointer of the host, or one without a value";
    if (a->freed && !a->freed_line) return "its graph has not allocated it yet: " + described(*a);
    if (a->freed) return "the memory was freed at " + place_of(a->freed_file, a->freed_line) + ": " + described(*a);
    if (at >= a->high()) return std::to_string(at - a->high()) + " bytes after the end of " + described(*a);
    if (at < a->low) return std::to_string(a->low - at) + " bytes before " + described(*a);
    return "in " + described(*a);
}

// What follows an allocation up to the next multiple of 256 bytes.
static constexpr unsigned char FILL = 0xA5;
static void fill_end(const Allocation& a) {
    __builtin_memset((void*)a.high(), FILL, a.mapped + a.pages - a.high());  // not watched, if a kernel allocates
}

size_t overrun(Allocation& a) {
    if (a.freed || !a.mapped) return 0;
    for (uintptr_t at = a.mapped + a.pages; at-- > a.high();)
        if (*(unsigned char*)at != FILL) {
            fill_end(a);
            return at + 1 - a.high();
        }
    return 0;
}

bool is_in_program(const void* pointer) {
    Dl_info program, module;
    return dladdr((void*)getauxval(AT_ENTRY), &program) && dladdr(pointer, &module)
        && program.dli_fbase == module.dli_fbase;
}

void open_memory(bool open) {
    for (auto& [low, a] : host().allocations)
        if (a.type == cudaMemoryTypeDevice && !a.freed)
            mprotect((void*)a.mapped, a.pages, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    open_arriving(open);
}

Spot copying{};

static struct sigaction before[64];

// Addresses in the program after the interrupted instruction, or after the call of a library's function that it is in,
// and of the calls that led there, the innermost first: "+1/2/3", from the program's first byte; "" for none.
static std::string place_in_program() {
    struct Search { uintptr_t base; std::string codes; int count; } search{};
    Dl_info module;
    if (!dladdr((void*)getauxval(AT_ENTRY), &module)) return "";
    search.base = uintptr_t(module.dli_fbase);
    _Unwind_Backtrace([](_Unwind_Context* frame, void* to) {
        auto& search = *static_cast<Search*>(to);
        int exact = 0;
        uintptr_t at = _Unwind_GetIPInfo(frame, &exact);
        Dl_info module;
        if (!dladdr((void*)at, &module) || uintptr_t(module.dli_fbase) != search.base) return _URC_NO_REASON;
        search.codes += (search.count ? "/" : "+") + std::to_string(at + unsigned(exact) - search.base);
        return ++search.count < 16 ? _URC_NO_REASON : _URC_END_OF_STACK;
    }, &search);
    return search.codes;
}

// A wild access of host code, an integer division by zero or an abort() is reported, and the program dies of the signal
// as it would elsewhere.
static void host_fault(int number, siginfo_t* info, void*) {
    static std::atomic<bool> once{false};
    std::string array;
    if (number == SIGFPE || number == SIGABRT) {
        std::string code = place_in_program();
        bool follows = number == SIGABRT && host().sticky != cudaSuccess;  // an exception that nothing catches
        if (!follows) report_text("problem", "", std::string("crash\x1fhost code ")
            + (number == SIGFPE ? "divides an integer by zero" : "is ended by abort(), as a wrong free() is,")
            + (code.empty() ? "" : " at {0}") + "\x1f\x1f\x1f\x1f" + (code.empty() ? "" : code + '\x1f') + '\x1e');
        sigaction(number, &before[number], nullptr);
        return;
    }
    bool is_read = false;
    if (std::string what = on_its_way(info->si_addr, array, is_read); !what.empty()) {
        std::string code = place_in_program();
        const char* how = is_read ? "writes to what is still to be read" : "reads or writes what is still on its way";
        report_text("problem", "", std::string("not arrived\x1fhost code ") + how
            + (code.empty() ? ": " : ", at {0}: ") + what + ", and nothing has waited for it\x1f" + array
            + "\x1f\x1f\x1f" + (code.empty() ? "" : code + '\x1f') + '\x1e');
        return;
    }
    Allocation* a = nearest(info->si_addr);
    const bool is_consequence = !a && host().sticky != cudaSuccess;  // allocations fail after a fault, and give nothing
    if (!is_consequence && !once.exchange(true)) {
        bool is_outside = a && !a->freed && a->type != cudaMemoryTypeDevice
            && uintptr_t(info->si_addr) - a->low >= a->bytes;
        std::string place;
        if (copying.file) place = std::string("@") + copying.file + ':' + std::to_string(copying.line) + ":0";
        else place = place_in_program();
        std::string message = "host code reads or writes ";
        if (!a)
            message += uintptr_t(info->si_addr) < PAGE ? "through a null pointer" : "an address that is not its own";
        else if (a->freed) message += "freed memory";
        else if (is_outside) message += "outside of an allocation";
        else message += "what only kernels and cudaMemcpy reach";
        message += place.empty() ? "" : " at {0}";
        if (a) message += ": " + explained(info->si_addr);
        const char* kind = is_outside ? "out of bounds" : a ? "device memory" : "crash";
        report_text("problem", "", std::string(kind) + '\x1f' + message + '\x1f'
            + (a ? a->name : "") + "\x1f\x1f\x1f" + (place.empty() ? "" : place + '\x1f') + '\x1e');
    }
    sigaction(number, &before[number], nullptr);  // the access is repeated, and ends the process
}

static void watch_host() {
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
        struct sigaction action{};
        action.sa_sigaction = host_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(number, &action, &before[number]);
    }
}

static struct Watching {
    Watching() {
        watch_host();
        emu_explain_with([](const void* address) {
            static std::string text;
            if (HostArray array = nearest(address) ? HostArray{} : of_host(address); !array.name.empty()) {
                text = array.name + (array.bytes ? " " + std::to_string(array.bytes) + " bytes" : "");
                if (array.code) text += " (allocated at {1})";
                return Explanation{text.c_str(), true, array.code ? (void*)(program_base() + array.code) : nullptr};
            }
            text = explained(address);
            return Explanation{text.c_str(), false, nullptr};
        });
    }
} watching;

static cudaError_t release(void* pointer, bool of_host, const char* call, Spot place, bool waits = true) {
    Lock lock;
    if (!pointer || host().sticky != cudaSuccess) return returned(cudaSuccess);
    if (is_in_host_function(call, place)) return cudaErrorNotPermitted;
    Allocation* a = find(pointer);
    if (current && a && a->of_host_code) return cudaSuccess;  // a parameter's destructor, which a GPU does not run
    bool begins = a && a->low == uintptr_t(pointer);
    const char* wrong = !a ? "a pointer that no allocation of the CUDA runtime gave"
        : a->freed ? "memory that is freed already"
        : !begins ? "a pointer into the middle of an allocation"
        : of_host != (a->type == cudaMemoryTypeHost) ? (of_host ? "memory of the device" : "memory of the host")
        : nullptr;
    if (wrong) {
        std::string what = a ? ": " + described(*a) + (a->freed ? ", freed at " + place_of(a->freed_file, a->freed_line)
            : "") : "";
        report("problem", "free", std::string(call) + " at {0} gets " + wrong + what, a ? a->name : "", place);
        return failed(cudaErrorInvalidValue);
    }
    if (waits) host_waits_for_all();
    a->freed = true, a->freed_file = place.file, a->freed_line = place.line;
    mprotect((void*)a->mapped, a->pages, PROT_NONE);
    madvise((void*)a->mapped, a->pages, MADV_DONTNEED);
    return returned(cudaSuccess);
}

// Makes freed memory anew, at its address and without contents.
static void revive(Allocation& a) {
    a.freed = false;
    mprotect((void*)a.mapped, a.pages, PROT_READ | PROT_WRITE);
    fill_end(a);
    if (a.type == cudaMemoryTypeDevice) mprotect((void*)a.mapped, a.pages, PROT_NONE);
    a.is_read = false, a.writer.clear(), a.too_early = {};
#ifdef EMU_CHECK
    emu_adopt((void*)a.low, a.bytes, 4);
#endif
}

void leaks() {
    for (auto& [low, a] : host().allocations)
        if (!a.freed && a.mapped)
            report("remark", "leak", described(a) + " is never freed", a.name, {a.file.c_str(), a.line});
}

}  // namespace emu

using namespace emu;

EMU_API emu_malloc(void** pointer, size_t bytes, int kind, Named name, const char* file, int line) {
    Lock lock;
    if (!pointer) return failed(cudaErrorInvalidValue);
    if (host().sticky != cudaSuccess) return returned(cudaSuccess);
    if (is_in_host_function("an allocation", {file, line})) return cudaErrorNotPermitted;
    *pointer = nullptr;
    if (!bytes) return cudaSuccess;
    size_t used = 0;
    for (auto& [low, a] : host().allocations) used += a.freed ? 0 : a.pages;
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    if (pages + used > size_t(fact("memory"))) return failed(cudaErrorMemoryAllocation);
    char* memory = static_cast<char*>(mmap(nullptr, pages + 2 * GUARD, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
    auto type = cudaMemoryType(kind);
    mprotect(memory + GUARD, pages, PROT_READ | PROT_WRITE);
    Allocation a{uintptr_t(memory) + GUARD + pages - (bytes + 255) / 256 * 256, bytes, type, name.name, file, line};
    a.element = name.element, a.of_host_code = !current;
    a.mapped = uintptr_t(memory) + GUARD, a.pages = pages;
    fill_end(a);
    if (type == cudaMemoryTypeDevice && !current) mprotect(memory + GUARD, pages, PROT_NONE);  // open in a launch
    host().allocations[a.low] = a;
    *pointer = (void*)a.low;
#ifdef EMU_CHECK
    // 64 bytes of shadow for a number: next to each other, those of large arrays of bytes share one for every four
    bool is_narrow = name.is_of_numbers && name.element < 4 && bytes / name.element <= size_t(4) << 20;
    emu_adopt(*pointer, bytes, is_narrow ? name.element : 4);
    if (name.padding) emu_padding(*pointer, bytes, name.padding, name.element);
#endif
    return cudaSuccess;
}
EMU_EXPORT void emu_rows(void* memory, size_t pitch, size_t width, size_t rows) {
    Lock lock;
    if (Allocation* a = find(memory)) a->pitch = pitch, a->width = width, a->rows = rows;
}
EMU_API cudaFree(void* pointer, const char* file, int line) {
    return release(pointer, false, "cudaFree", {file, line}); }
EMU_API cudaFreeHost(void* pointer, const char* file, int line) {
    return release(pointer, true, "cudaFreeHost", {file, line}); }

// Memory of the host that a program registers: it is in the list without pages of its own.
EMU_API cudaHostRegister(void* pointer, size_t bytes, unsigned, const char* file, int line) {
    Lock lock;
    if (!pointer || !bytes) return failed(cudaErrorInvalidValue);
    if (Allocation* a = find(pointer); a && !a->freed) return failed(cudaErrorHostMemoryAlreadyRegistered);
    host().allocations[uintptr_t(pointer)] = {uintptr_t(pointer), bytes, cudaMemoryTypeHost, "", file, line};
    emu_adopt(pointer, bytes, 4);
    return cudaSuccess;
}
EMU_API cudaHostUnregister(void* pointer, const char*, int) {
    Lock lock;
    Allocation* a = find(pointer);
    if (!a || a->mapped || a->low != uintptr_t(pointer)) return failed(cudaErrorHostMemoryNotRegistered);
    emu_forget(pointer);
    host().allocations.erase(a->low);
    return cudaSuccess;
}

EMU_API cudaMemGetInfo(size_t* free, size_t* total) {
    Lock lock;
    size_t used = 0;
    for (auto& [low, a] : host().allocations)
        if (!a.freed && a.type != cudaMemoryTypeHost) used += a.pages;
    *total = size_t(fact("memory"));
    *free = *total - std::min(used, *total);
    return returned(cudaSuccess);
}

EMU_API emu_pointer_attributes(cudaPointerAttributes* out, const void* pointer) {
    Lock lock;
    Allocation* a = find(pointer);
    bool known = a && !a->freed;
    *out = {known ? a->type : cudaMemoryTypeUnregistered, 0, known ? (void*)pointer : nullptr,
        known && a->type == cudaMemoryTypeDevice ? nullptr : (void*)pointer};
    return returned(cudaSuccess);
}
