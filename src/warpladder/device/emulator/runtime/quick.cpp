// The usual case of an access, in a few comparisons: whole cells of the block's shared memory are read, or of global
// memory that no other thread has written to in this launch; what is there was written, and before the block's last
// barrier. Or such cells are written, and what others did there was before the last barrier. Everything else is for
// `remember`, which would do the same here. Builds that count need every access.
#if defined EMU_CHECK && !defined EMU_COUNT
#include "worker.h"

namespace emu {

void Checker::Reader::become(Thread& me) {
    Block& block = block_of(me);
    thread = &me, mine = &block.clocks.threads[me.linear], clocks = &block.clocks;
    number = number_of(me), first = number - me.linear, is_alone = block.group->blocks.size() == 1;
}

// The array of an access that may be a usual one, or null.
template <unsigned size> EMU_INLINE const Near* Checker::usual(uintptr_t address, const void* code) {
    const Near& last = near(uintptr_t(code));
    if (!current || !last.holds(address) || last.grain != (size < 4 ? size : 4) || address % size || !ties_.empty()
        || !guesses_.empty()) return nullptr;
    if (current != reader_.thread) reader_.become(*current);
    if (reader_.mine->epoch != reader_.clocks->epoch) clock(*current);
    return address - last.low + size > last.bytes ? nullptr : &last;
}

// Member by member: a struct that is put together first waits for its parts.
EMU_INLINE void Checker::put(Access& to, const void* code, uint8_t bytes) {
    to.thread = reader_.number, to.epoch = reader_.mine->epoch, to.clock = reader_.mine->clock;
    to.code = uint32_t(uintptr_t(code) - run_->base), to.bytes = bytes, to.atomic = 0;
}

template <unsigned size> EMU_INLINE bool Checker::writes_quickly(uintptr_t address, const void* code) {
    constexpr unsigned grain = size < 4 ? size : 4;
    constexpr uint8_t every = (1u << grain) - 1;
    const Near* last = usual<size>(address, code);
    if (!last) return false;
    Region& region = *last->region;
    const uint32_t number = reader_.number, epoch = reader_.mine->epoch;
    const uint32_t stamp = region.shared ? reader_.clocks->stamp : launch_stamp_;
    if (region.shared ? !reader_.is_alone : !region.written || !region.view) return false;
    auto before = [&](const Access& access) {
        return !access.thread || access.thread == number
            || (region.shared && access.thread < ENGINES && access.epoch < epoch);
    };
    for (uintptr_t at = address; at < address + size; at += grain) {
        Cell& cell = *reinterpret_cast<Cell*>(last->cells + at / grain * sizeof(Cell));
        if (cell.stamp != stamp) cell = Cell{}, cell.stamp = stamp;
        if (cell.write.atomic >= UNDER_WAY || !before(cell.write) || !before(cell.read[0]) || !before(cell.read[1]))
            return false;
        cell.written |= every;
        cell.use &= uint8_t(~READ);
        put(cell.write, code, every);
    }
    if (region.shared) return true;
    memset(region.written + (address - region.written_low), 1, size);
    region.view->touched |= 2, region.view->stored += size;
    run_->launch.effects |= 1;
    return true;
}

template <unsigned size> EMU_INLINE bool Checker::reads_quickly(uintptr_t address, const void* code) {
    constexpr unsigned grain = size < 4 ? size : 4;
    constexpr uint8_t every = (1u << grain) - 1;
    const Near* usually = usual<size>(address, code);
    if (!usually) return false;
    const Near& last = *usually;
    const uint32_t number = reader_.number, epoch = reader_.mine->epoch;
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
        if (is_own) put(first, code, every);
        else if (!second.thread || warp(number) != warp(first.thread) || warp(second.thread) == warp(first.thread))
            put(second, code, every);
    }
    if (region.view) region.view->touched |= 1;
    return true;
}

}  // namespace emu
#endif
