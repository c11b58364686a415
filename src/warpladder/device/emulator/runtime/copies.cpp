// Asynchronous copies (cp.async), called by kernel threads.
#include "worker.h"

using namespace emu;

namespace emu {

static Copies& copies_of(Thread& me) {
    Block& block = block_of(me);
    if (block.copies.size() < block.count) block.copies.resize(block.count);
    block.copying = true;
    return block.copies[me.linear];
}

// Fails for an address with a wrong alignment; the checker knows its array.
[[noreturn]] static void refuse(Thread& me, [[maybe_unused]] const void* address, unsigned alignment,
    const std::string& what, Where where) {
#ifdef EMU_CHECK
    checker.misaligned(address, alignment, what, where);
#endif
    std::string why = name_of(me) + " uses an address as a " + what + " at {0} that is no multiple of "
        + std::to_string(alignment);
    worker_of(me).fail({"misaligned", why, "", text(me.block->index), text(me.index), {where}});
}

}  // namespace emu

EMU_EXPORT void emu_misaligned(const void* address, unsigned alignment, const char* what, const char* file, int line) {
    refuse(self(), address, alignment, what, {file, line});
}

EMU_EXPORT void emu_unfilled(const char* what, const char* file, int line) {
    Thread& me = self();
    worker_of(me).fail({"uninitialised local", "the " + std::string(what) + " at {0} was never filled, in "
        + name_of(me), "", text(me.block->index), text(me.index), {{file, line}}});
}

EMU_EXPORT void emu_copy(void* to, const void* from, unsigned bytes, unsigned size) {
    Thread& me = self();
    const void* code = __builtin_return_address(0);
    if (!block_of(me).memory.holds(to)) {
        std::string why = name_of(me) + " copies by cp.async to memory outside of its block's shared memory, at {0}";
        worker_of(me).fail({"out of bounds", why, "", text(me.block->index), text(me.index), {{nullptr, 0, code}}});
    }
    if (uintptr_t(to) % size) refuse(me, to, size, "target of cp.async", {nullptr, 0, code});
    if (uintptr_t(from) % size) refuse(me, from, size, "source of cp.async", {nullptr, 0, code});
#ifdef EMU_CHECK
    if (bytes) checker.access(from, bytes, false, 0, code);
    checker.access(to, size, true, UNDER_WAY, code);
#endif
    copies_of(me).under_way.push_back({static_cast<char*>(to), static_cast<const char*>(from), bytes, size});
}

EMU_EXPORT void emu_commit_copies() { copies_of(self()).commit(); }

EMU_EXPORT void emu_wait_for_copies(unsigned pending) {
    Thread& me = self();
    copies_of(me).wait(pending, [&]([[maybe_unused]] const Copy& copy) {
#ifdef EMU_CHECK
        checker.arrived(me, copy.to, copy.size);
#endif
    });
}
