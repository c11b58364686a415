// The threads of a block, and the order in which they run; used by the one OS thread that runs the block.
#pragma once
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "checker.h"
#include "copies.h"
#include "phases.h"
#include "products.h"
#include "stacks.h"

namespace emu {

struct Worker;

enum Order : unsigned { forward, reverse, shuffled };

struct Warp {
    unsigned exist, waiting, done;  // a bit for each lane
};

// Threads that may run, first in, first out; each is in it once at most.
class Queue {
  public:
    void shape(unsigned threads) {
        slots_.resize(1);
        while (slots_.size() < threads + 1) slots_.resize(2 * slots_.size());
        clear();
    }
    void clear() { head_ = tail_ = 0; }
    bool empty() const { return head_ == tail_; }
    void push(unsigned thread) { slots_[tail_++ & (slots_.size() - 1)] = thread; }
    unsigned pop() { return slots_[head_++ & (slots_.size() - 1)]; }

  private:
    std::vector<unsigned> slots_;
    unsigned head_ = 0, tail_ = 0;
};

struct Block : BlockView {
    Worker* worker = nullptr;
    unsigned linear = 0;  // number in the grid
    unsigned released = 0, live = 0;
    // threads at the barrier; true predicates there, and at the barrier before
    unsigned arrived = 0, votes = 0, counted = 0;
    Thread* site = nullptr;                        // the first to come
    bool mixed = false;                            // some wait at one barrier and some at another
    bool hurt = false;                             // a fault has ended some of its threads
    unsigned grid_arrived = 0;
    struct Cluster* group = nullptr;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<unsigned> arrangement;
    SharedMemory memory;
    Clocks clocks;
    std::vector<Copies> copies;  // of each thread, if one has begun any
    bool copying = false;
    std::map<const void*, PhaseBarrier> phases;  // the barriers in its shared memory, by address
    std::vector<Warpgroup> warpgroups;           // if one has begun products
    std::vector<Products> products;              // of each thread, if one has begun products

    Queue woken;    // one by one, by a collective or a phase
    Queue patient;  // threads that poll: all others go first

    void shape(dim3 to) {
        unsigned threads_now = to.x * to.y * to.z;
        if (threads_now == threads.size() && to.x == size.x && to.y == size.y) return;
        size = to, count = threads_now;
        threads.assign(count, {});
        warps.assign((count + 31) / 32, {});
        arrangement.resize(count);
        std::iota(arrangement.begin(), arrangement.end(), 0u);
        for (unsigned i = 0; i < count; ++i) {
            threads[i].linear = i, threads[i].block = this;
            threads[i].index = {i % to.x, i / to.x % to.y, i / (to.x * to.y)};
        }
        first = reinterpret_cast<char*>(threads.data());
        stride = sizeof(Thread);
        order = arrangement.data();
        woken.shape(count);
        patient.shape(count);
    }

    void begin(unsigned how, unsigned seed) {
        begun = released = arrived = votes = grid_arrived = 0;
        woken.clear();
        patient.clear();
        live = count, released = count, mixed = hurt = false, calm = true;
        if (copying) for (auto& mine : copies) mine.clear();
        copying = false;
        phases.clear();
        warpgroups.clear();
        products.clear();
        for (unsigned i = 0; i < warps.size(); ++i) {
            unsigned lanes = std::min(32u, count - 32 * i);
            warps[i] = {lanes == 32 ? ~0u : (1u << lanes) - 1, 0, 0};
        }
        if (how == forward && arranged == forward) return;
        arranged = how;
        for (unsigned i = 0; i < count; ++i) arrangement[i] = how == reverse ? count - 1 - i : i;
        if (how == shuffled) {
            random.seed(seed * 2654435761u + linear);
            std::shuffle(arrangement.begin(), arrangement.end(), random);
        }
    }

    // Called before a thread first waits: threads that began before it are done, and from now on each has its own
    // state.
    void stir() {
        calm = false;
        for (unsigned i = 0; i + 1 < begun; ++i) {
            Thread& thread = threads[order[i]];
            thread.state = State::done;
            warps[thread.linear / 32].done |= 1u << (thread.linear & 31);
            --live;
        }
    }

    void wake(Thread& thread) {
        thread.state = State::ready;
        woken.push(thread.linear);
    }
    // Lets all others run before this thread goes on: it may wait for any of them.
    void rest(Thread& thread) {
        thread.state = State::ready;
        patient.push(thread.linear);
    }

    // Next thread to run; threads that have not begun come first, so that all get to the next barrier.
    Thread* next() {
        if (begun < count) {
            Thread& thread = threads[order[begun++]];
            thread.stack = nullptr;  // it has none yet
            return &thread;
        }
        if (!woken.empty()) return &threads[woken.pop()];
        while (released < count) {
            Thread& thread = threads[order[released++]];
            if (thread.state == State::at_barrier) return &thread;
        }
        return patient.empty() ? nullptr : &threads[patient.pop()];
    }

    // Lets all threads at a barrier go on.
    void release() {
        for (auto& thread : threads)
            if (thread.state != State::done) thread.state = State::at_barrier;
        released = 0;
    }

    unsigned arranged = forward;  // how they are arranged
    std::mt19937 random;
};

// Blocks that share a cluster barrier.
struct Cluster {
    std::vector<Block*> blocks;
    unsigned arrived = 0;
};

}  // namespace emu
