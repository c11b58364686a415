// A plain read of what other threads change by atomic operations is no race if it is a guess: the thread compares it
// next, by an atomicCAS of the same address, which takes no old value for a new one. So NVIDIA's programming guide
// writes an atomicAdd of doubles.
#ifdef EMU_CHECK
#include "worker.h"

namespace emu {

// Reports the reads that were no guesses: another thread runs, or the same one accesses the address otherwise. Thread
// 0 reports all.
void Checker::judge(uint32_t thread, uintptr_t address, size_t size) {
    for (Guess& guess : guesses_)
        if (guess.thread != thread || guess.address - address < size) {
            for (Guess& each : guesses_) run_->warn(each.report);
            return guesses_.clear();
        }
}

// An atomicCAS: the thread's own reads of the address were guesses.
void Checker::compares(Thread& me, const void* pointer, size_t size) {
    const uintptr_t address = uintptr_t(pointer);
    const uint32_t number = number_of(me);
    std::erase_if(guesses_, [=](const Guess& guess) {
        return guess.thread == number && guess.address - address < size; });
    Region* region = current && run_ ? find(me, address) : nullptr;
    if (!region || address + size > region->high) return;
    for (uintptr_t at = address; at < address + size; at += region->cells->grain())
        for (Access& read : (*region->cells)[at].read)
            if (read.thread == number && !read.atomic) read = {}, region->cells->settled(at) = 0;
}

}  // namespace emu
#endif
