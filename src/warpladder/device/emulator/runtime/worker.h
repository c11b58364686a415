// An OS thread that runs blocks: it starts CUDA threads, and switches to another one whenever one waits.
#pragma once
#include <chrono>
#include <thread>

#include "run.h"

namespace emu {

struct Worker {
    Run* run = nullptr;
    std::vector<std::unique_ptr<Block>> blocks;  // reused by later launches
    std::vector<std::unique_ptr<Cluster>> groups;
    size_t resident = 0;   // number of blocks in use
    unsigned turn = 0;     // block whose threads run
    size_t unfinished = 0;  // blocks
    unsigned coming = 0, share_ends = 0;  // units that this worker runs next
    Stack main;            // stack of work()
    void* main_context = nullptr;
    Stack* here = nullptr;  // current stack
    Stacks stacks;
    Stack* entered = nullptr;     // a stack that begins,
    Thread* beginning = nullptr;  // and the thread that begins on it
    unsigned idle = 0;     // yields since the last progress
    uint64_t turns = 0, turns_before = 0;  // of its polling threads and of all, since another worker made progress
    unsigned basic_blocks = 0;  // that were run (asan)
    bool combining = false;     // a collective's results are being computed
    std::chrono::steady_clock::time_point idle_since;

    void work(Run& now);

    // Called by CUDA threads.
    void barrier(Thread& me, const char* name, const char* file, int line, int predicate);
    void cluster_barrier(Thread& me, const char* file, int line);
    void grid_barrier(Thread& me, const char* file, int line);
    void collective(Thread& me, unsigned mask, void* payload, Combine combine, const char* name, const char* file,
        int line);
    unsigned converge(Thread& me, const char* file, int line);
    void yield(Thread& me);     // it polls: a deadlock, if nothing changes for long
    void give_way(Thread& me);  // all others run first
    void phase(Thread& me, void* barrier, uint32_t number, bool is_exact, const char* file, int line);
    void products(Thread& me, unsigned pending, const char* file, int line);
    void progress();
    [[noreturn]] void fail(Report report);  // the launch ends here
    [[noreturn]] void end_thread(Report report);  // the thread ends here, and the others go on
    void warn(Report report);               // the launch goes on

    void begin_stack();  // entry of every stack

  private:
    void run_units(Run& now);
    void seat(Block& block, uint3 index, dim3 place, Cluster* group);
    void seat_unit(unsigned unit);
    bool seat_next();
    bool seat_more(Thread& me);
    void run_seated();
    Thread* next();
    Thread* stuck();
    bool release_converged();
    void suspend(Thread& me);
    void finish(Thread& me);
    void complete_barrier(Block& block);
    void left_early(Block& block, const char* why);
    bool complete(Block& block, Thread& leader, Thread* me, Combine combine);
    [[noreturn]] void no_stack();
    [[noreturn]] void leave();
};

inline thread_local Worker* worker_here = nullptr;

// During its life emu_stuck may interrupt the worker's OS thread (watch.cpp).
class Watch {
  public:
    explicit Watch(Worker& worker);
    ~Watch();
    Watch(const Watch&) = delete;
};

inline Thread& self() { return *current; }
inline Block& block_of(Thread& me) { return *static_cast<Block*>(me.block); }
// in the grid, from 1
inline uint32_t number_of(Thread& me) { return block_of(me).linear * block_of(me).count + me.linear + 1; }
inline Block& stirred(Thread& me) {
    Block& block = block_of(me);
    if (block.calm) block.stir();
    return block;
}
inline Worker& worker_of(Thread& thread) { return *block_of(thread).worker; }

// Kinds of reports on a barrier, and on a call of a group, that threads which left the kernel did not reach: faults in
// a checked program, and remarks where it runs as on a GPU.
#ifdef EMU_CHECK
constexpr const char *EARLY_EXIT = "left early", *GROUP_LEFT = "warp mask", *LATER_BLOCK = "later block";
#else
constexpr const char *EARLY_EXIT = "early exit", *GROUP_LEFT = "early exit", *LATER_BLOCK = "waits for later blocks";
#endif
Report divergence(Block& block, const char* why);
void leftovers(Block& block);
void unfinished_products(Block& block);
void bring(Block& block, PhaseBarrier& barrier);
std::string lacks(Block& block, const void* barrier);
Report deadlock(Worker& worker);
void poll(Thread& me, const void* address, unsigned size, const void* code);
std::string name_of(const Thread& thread);
std::string lanes_of(unsigned mask);

}  // namespace emu
