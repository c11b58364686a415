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
    moment = clocks->moment, its_warp = moment + 1 + me.linear / 32;
}

// A read of what two other threads have read since anything passed that could order a write after them: a third reader
// is not remembered. Of two in one warp a writer of that warp may be one, so readers of other warps go on.
template <unsigned size> EMU_INLINE bool Checker::reads_again(uintptr_t address, const void* code) {
    constexpr unsigned grain = size < 4 ? size : 4;
    const Near& last = near(uintptr_t(code));
    if (current != reader_.thread || !last.holds(address) || last.grain != grain || address % size
        || address - last.low + size > last.bytes) return false;
    const uint64_t* settled = reinterpret_cast<const uint64_t*>(last.settled + address / grain * sizeof(uint64_t));
    auto is_settled = [&](uint64_t moment) {
        return moment == reader_.moment || moment == reader_.its_warp || moment == launch_moment_; };
    if constexpr (size <= 4) return is_settled(*settled);
    for (unsigned i = 0; i < size / grain; ++i)
        if (!is_settled(settled[i])) return false;
    return true;
}

// Notes what two readers tell. Of other blocks: all, as long as nothing orders blocks. Of this block: nothing, if
// the clock of one has gone on since.
EMU_INLINE void Checker::settle(const Cell& cell, bool shared, uint64_t& settled) {
    const Access &first = cell.read[0], &second = cell.read[1];
    if (!second.thread || first.thread == second.thread || first.atomic || second.atomic
        || (cell.write.thread && (!shared || cell.write.epoch >= reader_.mine->epoch))) return;
    const uint32_t one = first.thread - reader_.first, other = second.thread - reader_.first;
    const size_t count = reader_.clocks->threads.size();
    if (one >= count || other >= count) {
        if (has_unordered_blocks_ && (one >= count) != (other >= count)) settled = launch_moment_;
        return;
    }
    for (const auto& [read, thread] : {std::pair{&first, one}, {&second, other}}) {
        const ThreadClock& its = reader_.clocks->threads[thread];
        if (read->epoch != reader_.mine->epoch || its.epoch != read->epoch || its.clock != read->clock) return;
    }
    settled = reader_.moment + (one / 32 == other / 32 ? 1 + one / 32 : 0);
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
    if (region.shared ? !reader_.is_alone : !region.written || !region.view || !parent_reads_.empty()) return false;
    auto before = [&](const Access& access) {
        return !access.thread || access.thread == number
            || (region.shared && access.thread < ENGINES && access.epoch < epoch);
    };
    for (uintptr_t at = address; at < address + size; at += grain) {
        Cell& cell = *reinterpret_cast<Cell*>(last->cells + at / grain * sizeof(Cell));
        if (cell.stamp != stamp) {
            if (cell.stamp == parent_.stamp) return false;
            cell = Cell{}, cell.stamp = stamp;
        }
        if (cell.write.atomic >= UNDER_WAY || !before(cell.write) || !before(cell.read[0]) || !before(cell.read[1]))
            return false;
        cell.written |= every;
        region.cells->settled(at) = 0;
        cell.use &= uint8_t(~READ);
        put(cell.write, code, every);
    }
    if (region.shared) return true;
    reader_.mine->has_output = true;
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
            reader_.mine->has_input = true;
        }
        if (is_own) put(first, code, every);
        else if (!second.thread || warp(number) != warp(first.thread) || warp(second.thread) == warp(first.thread))
            put(second, code, every);
        settle(cell, region.shared, region.cells->settled(at));
    }
    if (region.view) region.view->touched |= 1;
    return true;
}

}  // namespace emu
#endif
