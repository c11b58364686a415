// Stacks of an OS thread, and the switch from one to another. A waiting CUDA thread keeps its stack; others run on any
// free one.
#pragma once
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>
#if !defined(__x86_64__) || defined(EMU_UCONTEXT)
#define EMU_PORTABLE_SWITCH
#include <ucontext.h>
#endif
#ifdef EMU_ASAN
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* low, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** low, size_t* size);
extern "C" void __asan_poison_memory_region(const volatile void* low, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* low, size_t size);
#endif

namespace emu {

// Unmaps memory, and makes its addresses valid for the sanitizer: the next kernel's library may be loaded there.
inline void unmap(void* memory, size_t bytes) {
#ifdef EMU_ASAN
    __asan_unpoison_memory_region(memory, bytes);
#endif
    munmap(memory, bytes);
}

struct Stack {
    char* low = nullptr;
    size_t size = 0;
    // unused bytes at the top, so that the tops of many stacks do not share a set of the cache
    size_t skip = 0;
    void* fake = nullptr;  // AddressSanitizer's own
#ifdef EMU_PORTABLE_SWITCH
    ucontext_t registers;
#endif
    bool holds(const void* address) const { return size_t(static_cast<const char*>(address) - low) < size; }
    // True for an address that belongs to no function which runs, where one has its frame at `frame`.
    bool is_dead(const void* address, const void* frame) const { return address < frame
        || address >= low + size - skip; }
};

// A context is the place at which a stack was left.
#ifdef EMU_PORTABLE_SWITCH

// Leaves the stack `from`, and goes on in `to`; where this one was left is written to `left`.
inline void change(Stack& from, void*& left, void* to) {
    left = &from.registers;
    swapcontext(&from.registers, static_cast<ucontext_t*>(to));
}

// The context in which a function begins on a stack.
inline void* prepared(Stack& stack, void (*entry)()) {
    getcontext(&stack.registers);
    stack.registers.uc_stack.ss_sp = stack.low;
    stack.registers.uc_stack.ss_size = stack.size - stack.skip;
    stack.registers.uc_link = nullptr;
    makecontext(&stack.registers, entry, 0);
    return &stack.registers;
}

#else

// As above; a context is a stack pointer to the address to go on at. All registers count as lost, so that the compiler
// saves only those that it needs: the cost of a switch is the memory that a waiting thread occupies.
inline __attribute__((always_inline)) void change(Stack&, void*& left, void* to) {
    void** place = &left;
    asm volatile(
        "lea 1f(%%rip), %%rax\n\t"
        "push %%rax\n\t"
        "mov %%rsp, (%0)\n\t"
        "mov %1, %%rsp\n\t"
        "pop %%rax\n\t"
        "jmp *%%rax\n"
        "1:"
        : "+D"(place), "+S"(to)
        :
        : "rax", "rbx", "rcx", "rdx", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5",
          "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

inline void* prepared(Stack& stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack.low + stack.size - 64 - stack.skip);
    *--top = nullptr;  // no return address: the entry never returns
    *--top = reinterpret_cast<void*>(entry);
    return top;
}

#endif

inline __attribute__((always_inline)) void switch_stacks(Stack& from, void*& left, [[maybe_unused]] Stack& to,
    void* context) {
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&from.fake, to.low, to.size);
    change(from, left, context);
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#else
    change(from, left, context);
#endif
}

// All stacks of an OS thread; returned ones are used again.
class Stacks {
  public:
    static constexpr size_t PAGE = 4096;
#ifdef EMU_CHECK
    static constexpr size_t ZONE = 64 << 10, ZONES = 8;
#else
    static constexpr size_t ZONE = 0, ZONES = 1;
#endif
    static constexpr size_t LEAST = 512 << 10;
    static constexpr size_t SIZE = LEAST + ZONE * ZONES;  // untouched pages cost nothing

    ~Stacks() {
        for (auto& [memory, bytes] : mapped_) unmap(memory, bytes);
    }
    // A free stack, or null without memory.
    Stack* take() {
        if (free_.empty() && !grow()) return nullptr;
        Stack* stack = free_.back();
        free_.pop_back();
#ifdef EMU_ASAN
        __asan_unpoison_memory_region(stack->low, stack->size);  // of frames that were left without a return
#endif
        return stack;
    }
    void give(Stack* stack) { free_.push_back(stack); }
    // In a checked launch stacks begin elsewhere than in the last ones: an address of a local variable of theirs
    // belongs to no function then.
    void begin_launch() {
        if (all_.size() > MOST_MOVED) return;
        zone_ = (zone_ + 1) % ZONES;
        for (size_t i = 0; i < all_.size(); ++i) all_[i]->skip = skip(i);
    }
    // Frees all of them.
    void reset() {
        free_.clear();
        for (auto& stack : all_) free_.push_back(stack.get());
    }
    bool hold(const void* address) const {
        for (auto& stack : all_)
            if (stack->holds(address)) return true;
        return false;
    }

  private:
    // A page below each stack stops an overflow. A process may have some 65,000 pieces of memory, so after many stacks
    // there is one such page for several.
    bool grow() {
        const size_t count = all_.size() < 8192 ? 1 : 64, bytes = count * SIZE + PAGE;
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        if (mprotect(memory, PAGE, PROT_NONE) != 0) return munmap(memory, bytes), false;
        mapped_.emplace_back(memory, bytes);
        for (size_t i = 0; i < count; ++i) {
            all_.push_back(std::make_unique<Stack>());
            all_.back()->low = static_cast<char*>(memory) + PAGE + i * SIZE;
            all_.back()->size = SIZE;
            all_.back()->skip = skip(all_.size() - 1);
            free_.push_back(all_.back().get());
        }
        return true;
    }
    size_t skip(size_t number) const { return number * 7 % 64 * 64 + (number < MOST_MOVED ? zone_ * ZONE : 0); }
    static constexpr size_t MOST_MOVED = 2048;  // each zone that was used keeps its memory
    size_t zone_ = 0;
    std::vector<std::pair<void*, size_t>> mapped_;
    std::vector<std::unique_ptr<Stack>> all_;
    std::vector<Stack*> free_;
};

}  // namespace emu
