// Happens-before relation of a checked launch. A thread knows that an access is done
//   - of its own block, from before the last __syncthreads();
//   - of its own warp, from before a __syncwarp() with that lane;
//   - of a thread that then passed a fence and wrote atomically, if this thread read that value later, atomically; the
//     knowledge of that thread counts too. Between the two there may be a __syncthreads(), so that one thread acts for
//     its block. Volatile accesses count as atomic here;
//   - of a thread that arrived at a barrier in shared memory, if this thread waited for it there.
// A number sent to another block (st.async) brings no knowledge of the sender's writes, since nothing makes them
// visible before it. It brings that the sender's reads are finished, and the arrivals that it has waited for.
#pragma once
#ifdef EMU_CHECK
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "shadow.h"

namespace emu {

struct Moment {
    uint32_t epoch = 0, clock = 0;
    bool after(uint32_t e, uint32_t c) const { return e < epoch || (e == epoch && c < clock); }
};

// Blocks whose accesses before an epoch are known, and threads whose accesses before a moment are known.
struct Knowledge {
    std::unordered_map<uint32_t, uint32_t> blocks;
    std::unordered_map<uint32_t, Moment> threads;

    bool covers(uint32_t block, uint32_t thread, uint32_t epoch, uint32_t clock) const {
        if (auto found = blocks.find(block); found != blocks.end() && epoch < found->second) return true;
        auto found = threads.find(thread);
        return found != threads.end() && found->second.after(epoch, clock);
    }
    void learn(uint32_t thread, Moment moment) {
        Moment& known = threads[thread];
        if (known.epoch < moment.epoch || (known.epoch == moment.epoch && known.clock < moment.clock)) known = moment;
    }
    void learn_block(uint32_t block, uint32_t epoch) {
        uint32_t& known = blocks[block];
        if (known < epoch) known = epoch;
    }
    void learn(const Knowledge& other) {
        for (auto [block, epoch] : other.blocks) learn_block(block, epoch);
        for (auto [thread, moment] : other.threads) learn(thread, moment);
    }
};
using Known = std::shared_ptr<Knowledge>;  // shared, and changed only with a single reference

inline void join(Known& mine, const Known& other) {
    if (!other || other == mine) return;
    if (!mine) {
        mine = other;
        return;
    }
    if (mine.use_count() > 1) mine = std::make_shared<Knowledge>(*mine);
    mine->learn(*other);
}

struct ThreadClock {
    uint32_t epoch = 0;     // the block's, for which clock and seen count
    uint32_t clock = 0;     // goes on at every fence and __syncwarp()
    uint32_t seen[32] = {};  // of each lane of the warp, the clock before which all is known
    Known known, passed;     // passed: by senders
    struct Fence {  // released by the thread's next atomic write
        int scope = -1;  // none yet
        Moment moment;
        uint32_t seen[32];
        Known known, block_known;
    } fence;
    Moment proxy;         // the last fence for reads of the copy engine and the tensor cores
    bool fenced = false;  // since the block's last barrier
    Access flag{};        // store of another block's thread that it has read last, atomically
    bool has_input = false, has_output = false;  // it has read, or written, memory that is not the block's
};

struct Clocks {
    uint32_t epoch = 0, stamp = 0;
    uint64_t moment = 0;  // another one after each barrier, fence and __syncwarp() of any of the block's threads
    Known known, passed;  // of all of the block's threads
    std::vector<ThreadClock> threads;
    // released by fences before the block's last barrier: any of its threads may pass it on
    Known fenced;
    // threads that know more than the block; threads that have passed a fence since
    std::vector<uint32_t> learned, fencing;
};

// Knowledge that an atomic read at an address brings.
struct SyncPoint {
    Known known, block_known;  // for all threads; for threads of one block
    uint32_t block = ~0u;
};

}  // namespace emu
#else
namespace emu {
struct Clocks {};
}  // namespace emu
#endif
