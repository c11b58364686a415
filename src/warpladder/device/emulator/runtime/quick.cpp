// The usual case of an access, in a few comparisons: whole cells of the block's shared memory are read, or of global
// memory that no other thread has written to in this launch; what is there was written, and before the block's last
// barrier. Everything else is for `remember`, which would do the same here. Builds that count need every access.
#if defined EMU_CHECK && !defined EMU_COUNT
#include "worker.h"

namespace emu {

void Checker::Reader::become(Thread& me) {
    Block& block = block_of(me);
    thread = &me, mine = &block.clocks.threads[me.linear], clocks = &block.clocks;
    number = number_of(me), first = number - me.linear, is_alone = block.group->blocks.size() == 1;
}

template <unsigned size> EMU_INLINE bool Checker::reads_quickly(uintptr_t address, const void* code_address) {
    constexpr unsigned grain = size < 4 ? size : 4;
    constexpr uint8_t every = (1u << grain) - 1;
    Thread* me = current;
    const Near& last = near(uintptr_t(code_address));
    if (!me || !last.holds(address) || last.grain != grain || address % size || !ties_.empty()
        || !guesses_.empty()) return false;
    if (me != reader_.thread) reader_.become(*me);
    const ThreadClock& mine = *reader_.mine;
    const uint32_t number = reader_.number, epoch = mine.epoch;
    if (epoch != reader_.clocks->epoch || address - last.low + size > last.bytes) return false;
    Region& region = *last.region;
    auto warp = [&](uint32_t thread) { return int32_t(thread - reader_.first) >> 5; };
    for (uintptr_t at = address; at < address + size; at += grain) {
        Cell& cell = *reinterpret_cast<Cell*>(last.cells + at / grain * sizeof(Cell));
        const Access& write = cell.write;
        Access &first = cell.read[0], &second = cell.read[1];
        if (write.atomic >= UNDER_WAY) return false;
        bool is_own = !first.thread || first.thread == number;
        if (region.shared) {
            if (cell.stamp != reader_.clocks->stamp || (cell.written & every) != every || write.thread >= ENGINES
                || !reader_.is_alone || first.thread >= ENGINES
                || (write.thread != number && write.epoch >= epoch)) return false;
            cell.use |= READ | (write.thread != number ? FOREIGN : 0);
            is_own |= first.epoch < epoch;
        } else {
            uint32_t marks;
            if (cell.stamp != launch_stamp_ || grain != 4 || !region.written || (write.thread && write.thread != number)
                || (!is_own && (first.thread >= ENGINES || first.epoch != epoch))) return false;
            memcpy(&marks, region.written + (at - region.written_low), 4);
            if (marks != 0x01010101) return false;
        }
        auto put = [&](Access& to) {  // member by member: a struct that is put together first waits for its parts
            to.thread = number, to.epoch = epoch, to.clock = mine.clock;
            to.code = uint32_t(uintptr_t(code_address) - run_->base), to.bytes = every, to.atomic = 0;
        };
        if (is_own) put(first);
        else if (!second.thread || warp(number) != warp(first.thread) || warp(second.thread) == warp(first.thread))
            put(second);
    }
    if (region.view) region.view->touched |= 1;
    return true;
}

}  // namespace emu
#endif
