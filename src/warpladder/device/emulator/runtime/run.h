// One launch, shared by all OS threads that run it.
#pragma once
#include <dlfcn.h>

#include <condition_variable>

#include "reports.h"
#include "threads.h"

namespace emu {

// Barrier of the OS threads at a grid barrier; a failure releases all of them.
class Gate {
  public:
    explicit Gate(unsigned count) : count_(count) {}
    bool arrive() {  // false if the launch has failed
        std::unique_lock lock(mutex_);
        unsigned round = round_;
        if (++arrived_ == count_) {
            arrived_ = 0, ++round_;
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return broken_ || round_ != round; });
        return !broken_;
    }
    void fail() {
        std::lock_guard lock(mutex_);
        broken_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned count_, arrived_ = 0, round_ = 0;
    bool broken_ = false;
};

// Blocks come in units that are resident together: single blocks, clusters, or all of a cooperative grid.
struct Run {
    const Launch& launch;
    dim3 grid, block, cluster, clusters;  // clusters: number along each axis
    unsigned units, workers;
    uintptr_t base = 0;  // address of the kernel's module
    Reports& reports;
    Gate gate;
    std::vector<unsigned> order;  // of the units, unless it is forward
    std::atomic<unsigned> next{0}, idle{0}, active{0}, begun{0}, ended{0};  // begun, ended: units
    std::atomic<uint64_t> turns{0};  // of threads that poll
    std::atomic<bool> failed{false}, is_waiting{false};  // is_waiting: for blocks that had not begun
    std::set<std::string> ended_threads;  // kinds and arrays of the faults that have ended threads (check)

    Run(const Launch& l, unsigned most, Reports& r)
        : launch(l),
          grid(l.grid[0], l.grid[1], l.grid[2]),
          block(l.block[0], l.block[1], l.block[2]),
          cluster(l.cluster[0], l.cluster[1], l.cluster[2]),
          clusters(grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z),
          units(clusters.x * clusters.y * clusters.z),
          workers(std::min(most, units)),
          reports(r),
          gate(workers) {
        if (launch.order == forward) return;
        order.resize(units);
        for (unsigned i = 0; i < units; ++i) order[i] = launch.order == reverse ? units - 1 - i : i;
        if (launch.order == shuffled) {
            std::mt19937 random(launch.seed);
            std::shuffle(order.begin(), order.end(), random);
        }
    }
    void warn(const Report& report) {
        Dl_info module;
        if (!base && dladdr(launch.code, &module)) base = uintptr_t(module.dli_fbase);
        reports.add(report, base);
    }
    void fail(const Report& report) {
        warn(report);
        failed = true;
        gate.fail();
    }
    static uint3 at(dim3 size, unsigned i) { return {i % size.x, i / size.x % size.y, i / (size.x * size.y)}; }
};

}  // namespace emu
