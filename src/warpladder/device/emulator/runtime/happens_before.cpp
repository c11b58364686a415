// Knowledge of threads on finished accesses, from barriers, fences and atomic operations (clocks.h).
#ifdef EMU_CHECK
#include "worker.h"

namespace emu {

void Checker::barrier(Block& block) {
    Clocks& clocks = block.clocks;
    for (uint32_t thread : clocks.learned) {
        ThreadClock& its = clocks.threads[thread];
        join(clocks.known, its.known);
        join(clocks.passed, its.passed);
        its.known = its.passed = nullptr;
    }
    clocks.learned.clear();
    for (uint32_t thread : clocks.fencing) {
        if (clocks.threads[thread].fence.scope > 0) publish(clocks.fenced, block, thread);
        clocks.threads[thread].fenced = false;
    }
    clocks.fencing.clear();
    ++clocks.epoch;
    passes(clocks);
}

// A new moment: what is read from now on is not what was read before.
void Checker::passes(Clocks& clocks) {
    clocks.moment = moments_ += MOMENT;
    reader_.thread = nullptr;
}

// From here on an access of one block may be known to another one.
void Checker::orders_blocks() {
    has_unordered_blocks_ = false;
    launch_moment_ = moments_ += MOMENT;
}

// Adds the knowledge of a thread at its last fence.
void Checker::publish(Known& released, Block& block, uint32_t thread) {
    ThreadClock::Fence& fence = block.clocks.threads[thread].fence;
    join(released, fence.known);
    join(released, fence.block_known);
    if (!released) released = std::make_shared<Knowledge>();
    else if (released.use_count() > 1) released = std::make_shared<Knowledge>(*released);
    uint32_t number = block.linear * block.count + thread + 1, first = number - (thread & 31);
    released->learn_block(block.linear, fence.moment.epoch);
    for (uint32_t lane = 0; lane < 32; ++lane)
        if (fence.seen[lane]) released->learn(first + lane, {fence.moment.epoch, fence.seen[lane]});
    released->learn(number, fence.moment);
}

void Checker::cluster_barrier(Cluster& cluster) {
    orders_blocks();
    auto all = std::make_shared<Knowledge>();
    for (Block* block : cluster.blocks) {
        barrier(*block);
        if (block->clocks.known) all->learn(*block->clocks.known);
        all->learn_block(block->linear, block->clocks.epoch);
    }
    for (Block* block : cluster.blocks) block->clocks.known = all, block->clocks.passed = nullptr;
}

// All threads know all earlier accesses: the cells of global memory start anew. Those of shared memory remember what
// was written, and blocks of a cluster reach each other's: every block learns of all.
void Checker::grid_barrier() {
    launch_stamp_ = ++stamp_;
    orders_blocks();
    auto all = std::make_shared<Knowledge>();
    for (size_t i = 0; i < worker_here->resident; ++i) {
        Block& block = *worker_here->blocks[i];
        barrier(block);
        if (block.clocks.known) all->learn(*block.clocks.known);
        all->learn_block(block.linear, block.clocks.epoch);
    }
    for (size_t i = 0; i < worker_here->resident; ++i)
        worker_here->blocks[i]->clocks.known = all, worker_here->blocks[i]->clocks.passed = nullptr;
}

ThreadClock& Checker::clock(Thread& me) {
    Clocks& clocks = block_of(me).clocks;
    ThreadClock& mine = clocks.threads[me.linear];
    if (mine.epoch != clocks.epoch) {
        mine.epoch = clocks.epoch, mine.clock = 0;
        memset(mine.seen, 0, sizeof mine.seen);
    }
    return mine;
}

void Checker::sync_warp(Block& block, unsigned first, unsigned lanes) {
    uint32_t seen[32] = {};
    passes(block.clocks);
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned lane = unsigned(__builtin_ctz(left));
        ThreadClock& mine = clock(block.threads[first + lane]);
        for (int i = 0; i < 32; ++i) seen[i] = std::max(seen[i], mine.seen[i]);
        seen[lane] = std::max(seen[lane], ++mine.clock);
    }
    Known known, passed;
    for (unsigned left = lanes; left; left &= left - 1) {
        const ThreadClock& its = block.clocks.threads[first + unsigned(__builtin_ctz(left))];
        join(known, its.known);
        join(passed, its.passed);
    }
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned thread = first + unsigned(__builtin_ctz(left));
        ThreadClock& mine = block.clocks.threads[thread];
        memcpy(mine.seen, seen, sizeof seen);
        if ((known || passed) && !mine.known && !mine.passed) block.clocks.learned.push_back(thread);
        mine.known = known;
        mine.passed = passed;
    }
}

void Checker::fence(Thread& me, int scope) {
    ThreadClock& mine = clock(me);
    ++mine.clock;
    passes(block_of(me).clocks);
    if (scope > 0) orders_blocks();
    mine.fence.scope = scope;
    mine.fence.moment = {mine.epoch, mine.clock};
    mine.fence.known = mine.known;
    mine.fence.block_known = block_of(me).clocks.known;
    memcpy(mine.fence.seen, mine.seen, sizeof mine.seen);
    if (!mine.fenced) block_of(me).clocks.fencing.push_back(me.linear);
    mine.fenced = true;
}

// The kernel that a thread launches knows what the thread has done so far.
Parent Checker::launches(Thread& me) {
    ThreadClock& mine = clock(me);
    Block& block = block_of(me);
    ++mine.clock;
    passes(block.clocks);
    orders_blocks();
    return {"", launch_stamp_, number_of(me), block.linear, threads_per_block_, mine.epoch, mine.clock};
}

// An atomic operation: a write releases the knowledge of the last fence, a read acquires it.
void Checker::synchronise(Thread& me, const void* address, bool write, int scope) {
    Block& block = block_of(me);
    ThreadClock& mine = clock(me);
    bool publishes = write && (mine.fence.scope >= 0 || block.clocks.fenced);
    auto found = sync_points_.find(uintptr_t(address));
    if (found == sync_points_.end()) {
        if (!publishes) return;
        found = sync_points_.emplace(uintptr_t(address), SyncPoint{}).first;
    }
    SyncPoint& point = found->second;
    if (publishes) {
        if (point.block != block.linear) point.block_known = nullptr, point.block = block.linear;
        if (block.clocks.fenced) join(scope > 0 ? point.known : point.block_known, block.clocks.fenced);
        if (mine.fence.scope >= 0)
            publish(mine.fence.scope > 0 && scope > 0 ? point.known : point.block_known, block, me.linear);
    }
    Known before = mine.known;
    if (scope > 0) join(mine.known, point.known);
    if (point.block == block.linear) join(mine.known, point.block_known);
    if (mine.known && !before) block.clocks.learned.push_back(me.linear);
}

// An arrival at a barrier that counts arrivals: a fence whose knowledge only the threads that wait there acquire.
void Checker::release(Thread& me, Known& released) {
    Block& block = block_of(me);
    ThreadClock& mine = clock(me);
    ThreadClock::Fence kept = mine.fence;
    ++mine.clock;
    passes(block.clocks);
    orders_blocks();
    mine.fence.scope = 0;
    mine.fence.moment = {mine.epoch, mine.clock};
    mine.fence.known = mine.known;
    mine.fence.block_known = block.clocks.known;
    memcpy(mine.fence.seen, mine.seen, sizeof mine.seen);
    publish(released, block, me.linear);
    mine.fence = kept;
}

void Checker::acquire(Thread& me, const Known& released, const Known& passed, uint32_t engine, uint32_t moment) {
    ThreadClock& mine = clock(me);
    Known all = std::make_shared<Knowledge>();
    if (!mine.known && !mine.passed) block_of(me).clocks.learned.push_back(me.linear);
    all->threads[engine] = {0, moment};
    join(all, released);
    join(mine.known, all);
    join(mine.passed, passed);
}

// A number sent to another block: who waits for it knows that the sender's reads are finished, and what it waited for.
void Checker::send(Thread& me, Known& sent) {
    release(me, sent);
    join(sent, clock(me).passed);
    join(sent, block_of(me).clocks.passed);
}

uint32_t Checker::phases_seen(Thread& me, uint32_t engine) {
    Clocks& clocks = block_of(me).clocks;
    uint32_t seen = 0;
    for (const Known* known : {&clocks.known, &clocks.threads[me.linear].known})
        if (*known)
            if (auto found = (*known)->threads.find(engine); found != (*known)->threads.end())
                seen = std::max(seen, found->second.clock);
    return seen;
}

void Checker::proxy_fence(Thread& me) {
    ThreadClock& mine = clock(me);
    mine.proxy = {mine.epoch, ++mine.clock};
}

bool Checker::ordered(Thread& me, const Access& earlier, bool is_read) {
    Block& block = block_of(me);
    const ThreadClock& mine = block.clocks.threads[me.linear];
    uint32_t number = number_of(me);
    if (earlier.thread >= ENGINES) {  // no barrier of the block orders them: a thread must have waited for them
        auto waited = [&](const Known& known) {
            return known && known->covers(~0u, earlier.thread, earlier.epoch, earlier.clock); };
        return waited(block.clocks.known) || waited(mine.known) || waited(block.clocks.passed) || waited(mine.passed);
    }
    if (earlier.thread == number) return true;
    uint32_t its_block = (earlier.thread - 1) / threads_per_block_;
    if (its_block == block.linear) {
        if (earlier.epoch < block.clocks.epoch) return true;
        uint32_t its_linear = (earlier.thread - 1) % threads_per_block_;
        if (its_linear / 32 == me.linear / 32 && clock(me).seen[its_linear & 31] > earlier.clock) return true;
    }
    auto knows = [&](const Known& known) { return known
        && known->covers(its_block, earlier.thread, earlier.epoch, earlier.clock); };
    return knows(block.clocks.known) || knows(mine.known)
        || (is_read && (knows(block.clocks.passed) || knows(mine.passed)));
}

}  // namespace emu
#endif
