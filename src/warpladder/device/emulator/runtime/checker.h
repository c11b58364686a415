// Checker, called by the one OS thread of a checked launch; other builds have an empty one.
#pragma once
#include <map>
#include <memory>
#include <unordered_map>

#include "clocks.h"
#include "counter.h"
#include "reports.h"
#include "shared_memory.h"

namespace emu {

struct Block;
struct Cluster;
struct Thread;
struct Run;

#ifdef EMU_CHECK

struct Allocation {
    uintptr_t low;
    size_t bytes;
    std::shared_ptr<Cells> cells;
    std::unique_ptr<Lazy> written;
};

class Checker {
  public:
    std::map<uintptr_t, Allocation> allocations;

    void begin(Run& run);
    void allocated(const Allocation& memory);  // by a kernel, while it runs
    void* heap_allocate(size_t bytes);
    void heap_free(void* memory, const void* code);
    bool is_freed(uintptr_t address) const;
    void heap_begins();
    void end();
    void begin(Block& block);
    void end(Block& block);
    void ended(Block& block);
    void barrier(Block& block);
    void cluster_barrier(Cluster& cluster);
    void grid_barrier();
    void sync_warp(Block& block, unsigned first, unsigned lanes);
    void fence(Thread& me, int scope);
    Parent launches(Thread& me);

    void access(const void* address, size_t size, bool write, int atomic, const void* code);
    template <unsigned size> bool reads_again(uintptr_t address, const void* code);
    template <unsigned size> bool reads_quickly(uintptr_t address, const void* code);
    template <unsigned size> bool writes_quickly(uintptr_t address, const void* code);
    void synchronise(Thread& me, const void* address, bool write, int scope);
    bool is_store = false;  // the atomic access under way: it does not use what was there
    void compares(Thread& me, const void* address, size_t size);
    void arrived(Thread& me, const void* address, size_t size);

    // Barriers that count arrivals: an arrival releases the thread's knowledge, a wait acquires it, and an engine's
    // work up to a moment.
    uint32_t engine() { return ENGINES | ++engines_; }
    void release(Thread& me, Known& released);
    void acquire(Thread& me, const Known& released, const Known& passed, uint32_t engine, uint32_t moment);
    void send(Thread& me, Known& sent);
    // number of a barrier's phases that a thread knows to have ended
    uint32_t phases_seen(Thread& me, uint32_t engine);
    void tile(const void* address, size_t size, const void* code);
    void tile_arrived(Thread& me, const void* address, size_t size, uint32_t engine, uint32_t moment);
    void engine_reads(Thread& me, const void* address, size_t size, uint32_t engine, uint32_t moment, const void* code);
    void proxy_fence(Thread& me);
    void misaligned(const void* address, unsigned alignment, const std::string& type, Where where);
    void out_of_bounds(const std::string& what, Where where);
    void conversion(const std::string& what, Where where);
#ifdef EMU_COUNT
    bool running() const { return run_; }
    void entered(const void* code, uintptr_t frame);  // a basic block
    void counted(Thread& me, Act act, uint32_t code, uintptr_t address, size_t size);
#endif
    void written(uintptr_t address, size_t bytes);
    void padded(uintptr_t address, size_t bytes, const unsigned char* padding, size_t element);
    size_t unwritten(uintptr_t address, size_t bytes, size_t element, size_t& first, size_t& gaps);
    void touched(uintptr_t address, size_t bytes, void (*note)(void*, uintptr_t, uintptr_t, int), void* to);
    void copied(uintptr_t to, uintptr_t from, size_t bytes);
    uint32_t variable_read(uintptr_t address, size_t bytes, uint32_t since, uint32_t& now);

  private:
    template <unsigned size> const Near* usual(uintptr_t address, const void* code);
    void passes(Clocks& clocks);
    void orders_blocks();
    void settle(const Cell& cell, bool shared, uint64_t& settled);
    void put(Access& to, const void* code, uint8_t bytes);
    Allocation* holding(uintptr_t address);
    unsigned char* marks(uintptr_t address, size_t& bytes);
    Region* find(Thread& me, uintptr_t address);
    bool ordered(Thread& me, const Access& earlier, bool is_read);
    bool conflict(Thread& me, const Access& earlier, const Access& now, bool shared, bool is_read = false);
    void remember(Thread& me, Region& region, uintptr_t address, size_t size, bool write, int atomic, uint32_t code);
    void remember_read(Thread& me, Cell& cell, const Access& now);
    static bool known_written(const Region& region, const Cell& cell, uintptr_t at, unsigned bytes, size_t size);
    static Block& owner_of(Thread& me, uintptr_t address);
    void observes(Thread& me, Region& region, uintptr_t address, const Access& write, const Access& now);
    void race(Thread& me, Region& region, uintptr_t address, const Access& earlier, const char* was, const Access& now,
        const char* is);
    static void touches_sums(Thread& me, const void* address, size_t size, bool write, const void* code);
    void unfenced(Thread& me, Region& region, uintptr_t address, const Access& earlier, uint32_t code);
    void unfinished(Thread& me, Region& region, uintptr_t address, const Access& copy, const Access& now,
        const char* is);
    void report_unread(bool shared_only);
    void after_launch(Thread& me, Region& region, uintptr_t address, const Cell& cell, const Access& now, bool write);
    void with_parent(Thread& me, Region& region, uintptr_t address, const Access& its, const Access& now, bool wrote,
        bool write);
    void left(Thread& me, Region& region, uintptr_t address, bool write, uint32_t code);
    void unread(Thread& me, Region& region, uintptr_t address, uint32_t code);
    [[noreturn]] void outside(Thread& me, uintptr_t address, size_t size, bool write, uint32_t code);
    void publish(Known& released, Block& block, uint32_t thread);
    ThreadClock& clock(Thread& me);
    std::string thread_name(uint32_t thread);
    std::string element(const Region& region, uintptr_t address);

    static constexpr uint32_t NO_STAMP = ~0u;
    Run* run_ = nullptr;
    Parent parent_{};
    std::unordered_map<uintptr_t, Access> parent_reads_;  // of elements that the launched kernel has read too
    std::vector<Region> views_;
    Region module_;
    // Arrays of the last accesses, by place in the code: one place mostly accesses one array.
    static constexpr unsigned PLACES = 64;
    Near near_[PLACES];
    Near& near(uintptr_t code) { return near_[(code ^ code >> 6) % PLACES]; }
    uint32_t engines_ = 0;
    static constexpr uint64_t MOMENT = 64;  // more than a block has warps, which count on from it
    uint64_t moments_ = 0, launch_moment_ = 0;
    bool has_unordered_blocks_ = true;  // so far in this launch
    uint32_t stamp_ = 0, launch_stamp_ = 0, begun_ = 0, threads_per_block_ = 1;
    std::unordered_map<uintptr_t, SyncPoint> sync_points_;
    struct Reader {  // the thread of the last quick read, null if anything has passed since
        const Thread* thread = nullptr;
        ThreadClock* mine;
        const Clocks* clocks;
        uint32_t number, first;  // of the thread and of the first one of its block
        uint64_t moment, its_warp;  // of the block
        bool is_alone;           // its block is in no cluster
        void become(Thread& me);
    } reader_;

    // Reads of unwritten memory, by position in the code. If a thread writes to it later without waiting for the
    // reader, the race is the fault.
    struct Unread {
        Report report;
        uintptr_t address;
        bool shared;
    };
    std::map<uint32_t, Unread> unread_;

    // Reads of what atomic operations change, which may be guesses (guesses.cpp).
    struct Guess {
        Report report;
        uintptr_t address;
        uint32_t thread;
    };
    void judge(uint32_t thread, uintptr_t address, size_t size);
    std::vector<Guess> guesses_;
    std::set<std::string> lanes_;  // shared arrays through which the lanes of a warp pass numbers on

    // Remarks on values (values.cpp).
    struct Tie {  // a race of two stores, the second of which is not done yet
        Report report;
        uintptr_t address;
        uint8_t bytes;
        unsigned char before[4];
        std::pair<uint32_t, uint32_t> codes;
    };
    struct Fate {  // elements of a shared array in the blocks that have ended
        const char* name = "";
        unsigned element = 1;
        uint32_t code = 0;
        std::vector<uint8_t> elements;
    };
    static void used(Cell& cell, const Access& now, bool write);
    static void reads(Cell& cell, bool is_foreign);
    void undecided(Report report, uintptr_t address, const Access& earlier, const Access& now);
    void decide();
    void report_alike();
    void report_lost();
    void look_for_nan();
    void report_nan();
    std::set<uintptr_t> heap_;
    std::map<uintptr_t, size_t> freed_;  // bytes of what kernels have freed, by address
    std::vector<Tie> ties_;
    std::map<std::pair<uint32_t, uint32_t>, Report> alike_;
    std::set<std::pair<uint32_t, uint32_t>> differing_;
    std::map<uintptr_t, Fate> fates_;
    std::vector<Report> lost_, nan_;
    size_t judged_ = 0;
    bool has_only_numbers_ = false;
};

#else

struct Checker {
    void begin(Run&) {}
    void end() {}
    void begin(Block&) {}
    void end(Block&) {}
    void ended(Block&) {}
    void barrier(Block&) {}
    void cluster_barrier(Cluster&) {}
    void grid_barrier() {}
    void sync_warp(Block&, unsigned, unsigned) {}
};

#endif

inline Checker checker;

}  // namespace emu
