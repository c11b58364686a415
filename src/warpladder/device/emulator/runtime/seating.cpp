// Which blocks a worker runs at a time: one after the other, a cluster, its share of a cooperative grid, or as many as
// wait for each other.
#include "worker.h"

namespace emu {

void Worker::run_units(Run& now) {
    auto run_blocks = [&] {
        run_seated();
        for (size_t i = 0; i < resident; ++i) checker.ended(*blocks[i]);
    };
    if (now.launch.cooperative) {  // every worker runs its share of the blocks at the same time
        unsigned rank = now.next++;
        resident = unfinished = 0;
        for (unsigned i = rank; i < now.units; i += now.workers) seat_unit(now.order.empty() ? i : now.order[i]);
        run_blocks();
    } else {
        coming = share_ends = 0;
        while (!now.failed) {
            resident = unfinished = 0;
            if (!seat_next()) break;
            run_blocks();
            now.ended += unsigned(resident / (now.cluster.x * now.cluster.y * now.cluster.z));
        }
    }
}

// Seats the next unit of this worker's share; false if all have begun.
bool Worker::seat_next() {
    if (coming == share_ends) {
        unsigned share = std::max(1u, run->units / (run->workers * 8));
        coming = run->next.fetch_add(share);
        share_ends = std::min(run->units, coming + share);
        if (coming >= run->units) return coming = share_ends = 0, false;
    }
    ++run->begun;
    unsigned i = coming++;
    seat_unit(run->order.empty() ? i : run->order[i]);
    return true;
}

// A program's blocks that wait for one that has not begun: on a GPU those that fit run at the same time. False if all
// have begun; the blocks may be another worker's to begin.
bool Worker::seat_more(Thread& me) {
    constexpr size_t MOST = 4096;  // more than any GPU holds
    if (!run->launch.lets_leave || run->launch.cooperative || resident >= MOST) return false;
    if (!seat_next()) return run->begun < run->units;
    if (!run->is_waiting.exchange(true))
        warn({LATER_BLOCK, "block " + text(me.block->index) + " waits" + (me.polls_at ? " at {0}" : "")
            + " for a block that begins later: a GPU ends the kernel only if all its blocks fit on it at a time, which "
            "a cooperative launch makes sure of", "", text(me.block->index), text(me.index),
            me.polls_at ? std::vector<Where>{{nullptr, 0, me.polls_at}} : std::vector<Where>{}});
    return true;
}

// The blocks of one cluster, most often one.
void Worker::seat_unit(unsigned unit) {
    uint3 where = Run::at(run->clusters, unit);
    dim3 c = run->cluster;
    unsigned size = c.x * c.y * c.z;
    while (blocks.size() < resident + size) blocks.push_back(std::make_unique<Block>());
    if (groups.size() < resident + size) groups.resize(resident + size);
    auto& group = groups[resident];
    if (!group) group = std::make_unique<Cluster>();
    group->blocks.clear();
    group->arrived = 0;
    for (unsigned rank = 0; rank < size; ++rank) {
        uint3 inside = Run::at(c, rank);
        Block& block = *blocks[resident];
        block.rank = rank;
        block.cluster = size;
        group->blocks.push_back(&block);
        seat(block, {where.x * c.x + inside.x, where.y * c.y + inside.y, where.z * c.z + inside.z}, run->block,
            group.get());
        ++resident, ++unfinished;
    }
}

void Worker::seat(Block& block, uint3 index, dim3 size, Cluster* group) {
    block.worker = this;
    block.group = group;
    block.index = index;
    block.grid = run->grid;
    block.linear = index.x + run->grid.x * (index.y + run->grid.y * index.z);
    block.shape(size);
    block.begin(run->launch.order, run->launch.seed);
    block.memory.shape(run->launch);
    block.shared = block.memory.low();
    block.dynamic_offset = block.memory.dynamic_offset();
    block.dynamic_bytes = run->launch.dynamic_shared;
#if !defined(EMU_CHECK) && !defined(EMU_ASAN)
    // NaN and -1
    if (run->launch.watched == 1) memset(block.shared, 0xFF, block.dynamic_offset + block.dynamic_bytes);
#endif
    checker.begin(block);
}

}  // namespace emu
