// Barriers and warp collectives, called by kernel threads.
#include "worker.h"

namespace emu {

void Worker::barrier(Thread& me, const char* name, const char* file, int line, int predicate) {
    Block& block = stirred(me);
    me.state = State::at_barrier;
    me.waits = name, me.file = file, me.line = line;
    if (block.arrived == 0) block.site = &me, block.mixed = false;
    else if (line != block.site->line || (file != block.site->file && strcmp(file, block.site->file)))
        block.mixed = true;
    block.votes += unsigned(predicate);
    if (++block.arrived == block.live) complete_barrier(block);
    suspend(me);
}

// A barrier that only the threads which have left the kernel lack. CUDA does not define it; GPUs go on without them.
void Worker::left_early(Block& block, const char* why) {
    Report report = divergence(block, why);
    if (!run->launch.lets_leave) fail(std::move(report));
    report.kind = EARLY_EXIT;
    report.message += "; a GPU since Volta goes on without them, and CUDA does not promise it";
    warn(report);
    block.hurt = true;  // once for each block
}

// All live threads of a block have arrived: fails if they are at different barriers, or if a thread has left.
__attribute__((noinline)) void Worker::complete_barrier(Block& block) {
    if (block.live != block.count && !block.hurt)
        left_early(block, "some threads have left the kernel without reaching a barrier at which others wait");
    if (block.mixed) fail(divergence(block, "threads of one block wait at different barriers"));
    progress();
    block.counted = block.votes;
    block.votes = block.arrived = 0;
    if (run->launch.order == shuffled)
        std::shuffle(block.arrangement.begin(), block.arrangement.end(), block.random);
    block.released = 0;
    checker.barrier(block);
}

void Worker::cluster_barrier(Thread& me, const char* file, int line) {
    Block& block = stirred(me);
    me.state = State::at_cluster;
    me.waits = "the cluster's barrier", me.file = file, me.line = line;
    unsigned all = 0;
    for (Block* other : block.group->blocks) all += other->count;
    if (++block.group->arrived == all) {
        progress();
        block.group->arrived = 0;
        for (Block* other : block.group->blocks) other->release();
        checker.cluster_barrier(*block.group);
    }
    suspend(me);
}

void Worker::grid_barrier(Thread& me, const char* file, int line) {
    Block& block = stirred(me);
    if (!run->launch.cooperative)
        fail({"barrier", "the barrier of the whole grid at {0} in a launch that is not cooperative, so that its blocks "
            "need not all run at once", "", text(block.index), text(me.index), {{file, line}}});
    me.state = State::at_grid;
    me.waits = "the grid's barrier", me.file = file, me.line = line;
    ++block.grid_arrived;
    suspend(me);
}

void Worker::collective(Thread& me, unsigned mask, void* payload, Combine combine, const char* name, const char* file,
    int line) {
    Block& block = stirred(me);
    Warp& warp = block.warps[me.linear / 32];
    unsigned lane = me.linear & 31;
    me.waits = name, me.file = file, me.line = line;
    me.mask = mask, me.payload = payload, me.combine = combine;
    if (!(mask >> lane & 1)) {
        char hex[16];
        snprintf(hex, sizeof hex, "0x%08x", mask);
        fail({"warp mask", "lane " + std::to_string(lane) + " calls " + name + " at {0} with the mask " + hex
            + ", in which it is not", "", text(block.index), text(me.index), {{file, line}}});
    }
    me.state = State::at_warp;
    warp.waiting |= 1u << lane;
    if (!complete(block, me, &me, combine)) suspend(me);
    me.state = State::ready;
}

// If every lane of `leader`'s mask waits for the same collective, all go on; returns true if `me` may go on at once.
bool Worker::complete(Block& block, Thread& leader, Thread* me, Combine combine) {
    Warp& warp = block.warps[leader.linear / 32];
    unsigned first = leader.linear & ~31u, need = leader.mask & warp.exist & ~warp.done;
    if ((warp.waiting & need) != need) return false;
    void* payloads[32] = {};
    for (unsigned left = need; left; left &= left - 1) {
        unsigned lane = unsigned(__builtin_ctz(left));
        Thread& thread = block.threads[first + lane];
        if (thread.mask != leader.mask || (thread.waits != leader.waits && strcmp(thread.waits, leader.waits)))
            return false;
        payloads[lane] = thread.payload;
    }
    if (unsigned gone = leader.mask & warp.done; gone && combine && strncmp(leader.waits, "__", 2) && !block.hurt) {
        warn({GROUP_LEFT, std::string(leader.waits) + " at {0} is a call for all threads of the group, and lanes "
            + lanes_of(gone) + " of warp " + std::to_string(leader.linear / 32) + " have left the kernel without it",
            "", text(block.index), text(leader.index), {{leader.file, leader.line}}});
        block.hurt = true;
    }
    progress();
    warp.waiting &= ~need;
    combining = true;
    if (combine) combine(payloads);
    else checker.sync_warp(block, first, need);
    combining = false;
    unsigned order[32], n = 0;
    for (unsigned left = need; left; left &= left - 1) order[n++] = first + unsigned(__builtin_ctz(left));
    bool at_once = me && run->launch.order == forward;  // the last to arrive need not wait for its turn
    if (run->launch.order == reverse) std::reverse(order, order + n);
    if (run->launch.order == shuffled) std::shuffle(order, order + n, block.random);
    for (unsigned i = 0; i < n; ++i)
        if (!at_once || &block.threads[order[i]] != me) block.wake(block.threads[order[i]]);
    return at_once;
}

}  // namespace emu
