// Stacks, and the switch from one to another. A CUDA thread that waits keeps its stack; everything else runs on whichever is free.
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

#ifdef EMU_PORTABLE_SWITCH
using Context = ucontext_t;
#else
using Context = void*;  // the stack pointer; what it points to says the rest
#endif

// A stack with what is left of the work on it while another one runs.
struct Stack {
    char* low = nullptr;
    size_t size = 0;
    Context context{};
    void* fake = nullptr;  // AddressSanitizer's own
    bool holds(const void* address) const { return size_t(static_cast<const char*>(address) - low) < size; }
};

#ifdef EMU_PORTABLE_SWITCH

inline void change(Stack& from, Stack& to) { swapcontext(&from.context, &to.context); }

inline void prepare_context(Stack& stack, void (*entry)()) {
    getcontext(&stack.context);
    stack.context.uc_stack.ss_sp = stack.low;
    stack.context.uc_stack.ss_size = stack.size;
    stack.context.uc_link = nullptr;
    makecontext(&stack.context, entry, 0);
}

#else

// Keeps what a called function must keep, and goes on where the other stack was left. An indirect jump, for a return would be mispredicted.
extern "C" void emu_change(void** from, void* to);
asm(R"(
    .text
    .type emu_change, @function
emu_change:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    pop %rdx
    jmp *%rdx
    .size emu_change, .-emu_change
)");
inline void change(Stack& from, Stack& to) { emu_change(&from.context, to.context); }

inline void prepare_context(Stack& stack, void (*entry)(), size_t skip) {
    void** top = reinterpret_cast<void**>(stack.low + stack.size - 64 - skip);
    *--top = nullptr;  // no return address: the entry never returns
    *--top = reinterpret_cast<void*>(entry);
    for (int kept = 0; kept < 6; ++kept) *--top = nullptr;
    stack.context = top;
}

#endif

inline void switch_stacks(Stack& from, Stack& to) {
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&from.fake, to.low, to.size);
    change(from, to);
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#else
    change(from, to);
#endif
}

// All stacks of an OS thread; given back ones are used again.
class Stacks {
  public:
    static constexpr size_t PAGE = 4096;
#if defined(EMU_CHECK) || defined(EMU_ASAN)
    static constexpr size_t SIZE = 256 << 10;
#else
    static constexpr size_t SIZE = 128 << 10;
#endif

    ~Stacks() {
        for (auto& stack : all_) munmap(stack->low - PAGE, SIZE + PAGE);
    }
    // A stack on which `entry` begins at the next switch to it; null where the system gives no more memory.
    Stack* take(void (*entry)()) {
        if (free_.empty() && !grow()) return nullptr;
        Stack* stack = free_.back();
        free_.pop_back();
#ifdef EMU_ASAN
        __asan_unpoison_memory_region(stack->low, stack->size);  // of frames that were left without a return
#endif
#ifdef EMU_PORTABLE_SWITCH
        prepare_context(*stack, entry);
#else
        prepare_context(*stack, entry, all_.size() * 7 % 64 * 64);  // tops at different places of the cache
#endif
        return stack;
    }
    void give(Stack* stack) { free_.push_back(stack); }
    // All of them are free again, whatever runs on them.
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
    bool grow() {
        void* memory = mmap(nullptr, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        if (mprotect(memory, PAGE, PROT_NONE) != 0) return munmap(memory, SIZE + PAGE), false;  // what grows too far stops there
        all_.push_back(std::make_unique<Stack>());
        all_.back()->low = static_cast<char*>(memory) + PAGE;
        all_.back()->size = SIZE;
        free_.push_back(all_.back().get());
        return true;
    }
    std::vector<std::unique_ptr<Stack>> all_;
    std::vector<Stack*> free_;
};

}  // namespace emu
