// The usual case of an access, in a few comparisons: a whole cell of the block's shared memory is read, or one of
// global memory that no other thread has written to in this launch; what is there was written, and before the block's
// last barrier. Everything else is for `remember`, which would do the same here.
#ifdef EMU_CHECK
#include "worker.h"

namespace emu {

EMU_INLINE bool Checker::reads_quickly(Thread& me, Region& region, uintptr_t address, size_t size, uint32_t code) {
    unsigned grain = region.cells->grain();
    if (size != grain || address & (grain - 1)) return false;
    Block& block = block_of(me);
    const Clocks& clocks = block.clocks;
    const ThreadClock& mine = clocks.threads[me.linear];
    Cell& cell = (*region.cells)[address];
    if (mine.epoch != clocks.epoch) return false;
    const uint32_t number = number_of(me);
    const uint8_t every = uint8_t((1u << grain) - 1);
    const Access& write = cell.write;
    if (region.shared) {
        if (cell.stamp != clocks.stamp || (cell.written & every) != every || write.atomic >= UNDER_WAY
            || write.thread >= ENGINES || block.group->blocks.size() > 1) return false;
        if (write.thread != number && write.epoch >= clocks.epoch) return false;
    } else {
        if (cell.stamp != launch_stamp_ || grain != 4 || !region.written || (write.thread && write.thread != number)
            || write.atomic >= UNDER_WAY) return false;
        uint32_t marks;
        memcpy(&marks, region.written + (address - region.written_low), 4);
        if (marks != 0x01010101) return false;
    }
    Access &first = cell.read[0], &second = cell.read[1];
    const bool is_own = !first.thread || first.thread == number;
    if (!is_own && (first.thread >= ENGINES || (first.epoch != mine.epoch && !region.shared))) return false;
    if (region.shared) reads(cell, write.thread != number);
    auto put = [&](Access& to) {  // member by member: a struct that is put together first waits for its parts
        to.thread = number, to.epoch = mine.epoch, to.clock = mine.clock, to.code = code, to.bytes = every;
        to.atomic = 0;
    };
    auto warp = [](uint32_t thread) { return (thread - 1) / 32; };
    if (is_own || (region.shared && first.epoch < mine.epoch)) put(first);
    else if (!second.thread || warp(number) != warp(first.thread) || warp(second.thread) == warp(first.thread))
        put(second);
    return true;
}

}  // namespace emu
#endif
