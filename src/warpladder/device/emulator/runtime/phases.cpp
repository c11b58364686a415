// Arrivals at barriers in shared memory (mbarrier), and waits for their phases, called by kernel threads.
#include "worker.h"

namespace emu {

// Name of a barrier: that of its shared variable.
static std::string called(Block& block, const void* barrier) {
    unsigned offset = unsigned(static_cast<const char*>(barrier) - block.shared);
    for (const Place* place = block.worker->run->launch.layout->first; place; place = place->next)
        if (offset - place->offset < place->bytes) {
            unsigned element = (offset - place->offset) / 8;
            return std::string("barrier ") + place->name
                + (place->bytes > 8 ? "[" + std::to_string(element) + "]" : "");
        }
    return "the barrier";
}

// Reason why threads still wait for a barrier.
std::string lacks(Block& block, const void* address) {
    const PhaseBarrier& barrier = block.phases[address];
    std::string what = ", for phase " + std::to_string(barrier.phase) + " of " + called(block, address);
    if (barrier.missing)
        what += ", which lacks " + std::to_string(barrier.missing) + " of " + std::to_string(barrier.count)
        + " arrivals";
    if (barrier.bytes) {
        what += barrier.missing ? " and " : ", which ";
        what += barrier.bytes > 0 ? "lacks " + std::to_string(barrier.bytes) + " bytes that were announced"
            : "has got " + std::to_string(-barrier.bytes) + " bytes more than were announced";
    }
    return what;
}

[[noreturn]] static void refuse_phase(Thread& me, const std::string& why, const char* file, int line) {
    worker_of(me).fail({"phase", name_of(me) + " " + why, "", text(me.block->index), text(me.index), {{file, line}}});
}

static PhaseBarrier& phase_of(Thread& me, Block& block, const void* address, const char* file, int line) {
    auto found = block.phases.find(address);
    if (found != block.phases.end()) return found->second;
    bool shared = block.memory.holds(address);
    refuse_phase(me, shared ? "uses " + called(block, address) + " at {0}, which no thread has initialised"
        : "uses a barrier at {0} that lies in no shared memory", file, line);
}

// Block of the cluster in whose shared memory an address is; the thread's own where there is none.
Block& holder(Thread& me, const void* address) {
    for (Block* block : block_of(me).group->blocks)
        if (block->memory.holds(address)) return *block;
    return block_of(me);
}

// Wakes the threads that wait for a barrier; they check again whether they must wait.
static void wake_all(Block& block, PhaseBarrier& barrier) {
    block.worker->progress();
    for (unsigned thread : barrier.waiting) block.wake(block.threads[thread]);
    barrier.waiting.clear();
}

static void end_phase(Block& block, PhaseBarrier& barrier) {
    if (barrier.missing || barrier.bytes) return;
    ++barrier.phase;
    barrier.missing = barrier.count;
#ifdef EMU_CHECK
    join(barrier.known, barrier.released);
    join(barrier.passed, barrier.sent);
    barrier.released = barrier.sent = nullptr;
#endif
    wake_all(block, barrier);
}

// Lets copies (cp.async) arrive, and then their threads at the barrier.
static void deliver(Block& block, PhaseBarrier& barrier) {
    for (auto& [number, copies] : std::exchange(barrier.copies, {})) {
        [[maybe_unused]] Thread& owner = block.threads[number];
        for (const Copy& copy : copies) {
            copy.arrive();
#ifdef EMU_CHECK
            checker.arrived(owner, copy.to, copy.size);
#endif
        }
#ifdef EMU_CHECK
        checker.release(owner, barrier.released);
#endif
        --barrier.missing;
    }
    end_phase(block, barrier);
}

// Waits for the phase of a number, or, as mbarrier's own instruction does, for one of the same parity.
void Worker::phase(Thread& me, void* address, uint32_t number, bool is_exact, const char* file, int line) {
    Block& block = block_of(me);
    PhaseBarrier& barrier = phase_of(me, block, address, file, line);
#ifdef EMU_CHECK
    const uint32_t seen = checker.phases_seen(me, barrier.engine);
#endif
    while (is_exact ? barrier.phase == number : (barrier.phase & 1) == (number & 1)) {
        if (!barrier.under_way.empty()) {
            bring(block, barrier);
            continue;
        }
        if (!barrier.copies.empty()) {
            deliver(block, barrier);
            continue;
        }
        stirred(me);
        me.state = State::at_phase;
        me.waits = "barrier_wait", me.file = file, me.line = line, me.payload = address;
        barrier.waiting.push_back(me.linear);
        suspend(me);
    }
#ifdef EMU_CHECK
    // the thread does not know that an earlier phase has ended, whose parity the phase it waits for has too
    if (!is_exact && barrier.phase > seen + 1)
        refuse_phase(me, "waits at {0} for phase " + std::to_string(barrier.phase - 1) + " of " + called(block, address)
            + " and does not know that phase " + std::to_string(barrier.phase - 2)
            + " has ended: had it come before that, it would not have waited, since phases two apart have the same "
            "parity", file, line);
    checker.acquire(me, barrier.known, barrier.passed, barrier.engine, barrier.phase);
#endif
}

// Copies that have not arrived when a block ends: on a GPU they would write to memory of another block.
void leftovers(Block& block) {
    for (auto& [address, barrier] : block.phases)
        if (!barrier.under_way.empty()) {
            const Tile& tile = barrier.under_way.front();
            std::string why = "block " + text(block.index)
                + (tile.is_sent ? " ends before the number has arrived that was sent to it at {0}"
                : " ends before the tile has arrived that was requested at {0}") + ": no thread has waited for "
                + called(block, address);
            block.worker->fail({"unfinished copy", why, "", text(block.index), text(tile.thread),
                {{nullptr, 0, tile.code}}});
        }
    unfinished_products(block);
    checker.end(block);
}

}  // namespace emu

EMU_EXPORT void emu_phase_init(void* address, unsigned count, const char* file, int line) {
    Thread& me = self();
    Block& block = block_of(me);
    if (!block.memory.holds(address))
        refuse_phase(me, "initialises a barrier at {0} that lies in no shared memory of its block", file, line);
    if (uintptr_t(address) % 8) emu_misaligned(address, 8, "barrier", file, line);
    if (count == 0) refuse_phase(me, "initialises a barrier at {0} that no arrival would ever end", file, line);
    PhaseBarrier barrier;
    barrier.count = barrier.missing = count;
#ifdef EMU_CHECK
    barrier.engine = checker.engine();
    checker.access(address, 8, true, 0, __builtin_return_address(0));
#endif
    block.phases[address] = std::move(barrier);
}

static uint32_t arrive(Thread& me, void* address, unsigned count, unsigned bytes, int rank, const char* file,
    int line, [[maybe_unused]] bool has_only_read = false) {
    if (rank >= 0) address = emu_map_shared(address, unsigned(rank), file, line);
    Block& block = holder(me, address);
    if (!block.live)
        refuse_phase(me, "arrives at a barrier of block " + text(block.index) + " at {0}, which has left the kernel",
            file, line);
    PhaseBarrier& barrier = phase_of(me, block, address, file, line);
    if (barrier.missing < count)
        refuse_phase(me, "arrives at " + called(block, address) + " at {0}, in a phase in which all "
        + std::to_string(barrier.count) + " arrivals have come", file, line);
#ifdef EMU_CHECK
    checker.access(address, 8, true, 2, __builtin_return_address(0));
    if (count && has_only_read) checker.send(me, barrier.sent);
    else if (count) checker.release(me, barrier.released);
#endif
    uint32_t phase = barrier.phase;
    barrier.bytes += bytes;
    barrier.missing -= count;
    if (count) end_phase(block, barrier);
    return phase;
}

EMU_EXPORT void emu_phase_arrive(void* address, unsigned bytes, int rank, const char* file, int line) {
    arrive(self(), address, 1, bytes, rank, file, line); }
EMU_EXPORT void emu_phase_read(void* address, int rank, const char* file, int line) {
    arrive(self(), address, 1, 0, rank, file, line, true); }
EMU_EXPORT uint32_t emu_phase_arrivals(void* address, unsigned count, unsigned bytes, const char* file, int line) {
    return arrive(self(), address, count, bytes, -1, file, line); }
// An arrival when this thread's copies have arrived: at the latest when a thread waits for the barrier.
EMU_EXPORT uint32_t emu_phase_copies(void* address, const char* file, int line) {
    Thread& me = self();
    Block& block = block_of(me);
    Copies& mine = copies_of(me);
    PhaseBarrier& barrier = phase_of(me, block, address, file, line);
    if (mine.under_way.empty() || barrier.missing <= barrier.copies.size())
        return arrive(me, address, 1, 0, -1, file, line);
#ifdef EMU_CHECK
    checker.access(address, 8, true, 2, __builtin_return_address(0));
#endif
    uint32_t phase = barrier.phase;
    barrier.copies.emplace_back(me.linear, std::move(mine.under_way));
    mine.clear();
    if (!barrier.waiting.empty()) deliver(block, barrier);
    return phase;
}
EMU_EXPORT void emu_phase_drop(void* address, const char* file, int line) {
    Thread& me = self();
    PhaseBarrier& barrier = phase_of(me, block_of(me), address, file, line);
    if (barrier.count) --barrier.count;
    arrive(me, address, 1, 0, -1, file, line);
}
EMU_EXPORT int emu_phase_ended(void* address, uint32_t phase, const char* file, int line) {
    Thread& me = self();
    Block& block = block_of(me);
    PhaseBarrier& barrier = phase_of(me, block, address, file, line);
    if (barrier.phase == phase && !barrier.under_way.empty()) bring(block, barrier);
    if (barrier.phase == phase && !barrier.copies.empty()) deliver(block, barrier);
    if (barrier.phase == phase) emu_yield();
    if (barrier.phase == phase) return 0;
    worker_of(me).phase(me, address, phase, true, file, line);
    return 1;
}
EMU_EXPORT uint32_t emu_phase_number(void* address, const char* file, int line) {
    return phase_of(self(), block_of(self()), address, file, line).phase; }

EMU_EXPORT void emu_phase_wait(void* address, unsigned parity, const char* file, int line) {
#ifdef EMU_CHECK
    checker.access(address, 8, false, 2, __builtin_return_address(0));
#endif
    worker_of(self()).phase(self(), address, parity, false, file, line);
}
EMU_EXPORT void emu_phase_wait_for(void* address, uint32_t phase, const char* file, int line) {
#ifdef EMU_CHECK
    checker.access(address, 8, false, 2, __builtin_return_address(0));
#endif
    worker_of(self()).phase(self(), address, phase, true, file, line);
}

EMU_EXPORT void emu_proxy_fence() {
#ifdef EMU_CHECK
    checker.proxy_fence(self());
#endif
}
