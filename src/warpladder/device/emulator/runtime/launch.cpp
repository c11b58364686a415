// Functions that Python calls: launches, and memory. A launch runs on a pool of OS threads.
#include <unistd.h>

#include <cstdlib>

#include "guard.h"
#include "worker.h"

using namespace emu;

namespace emu {

// OS threads that help with launches, and sleep between them.
class Pool {
  public:
    void work(Run& run) {
        std::unique_lock lock(mutex_);
        if (owner_ != getpid()) {  // after a fork only the calling thread is left
            new (&helpers_) std::vector<std::unique_ptr<Helper>>;
            owner_ = getpid();
        }
        while (helpers_.size() + 1 < run.workers) {
            helpers_.push_back(std::make_unique<Helper>());
            Helper& helper = *helpers_.back();
            std::thread([&helper] { helper.serve(); }).detach();
        }
        for (unsigned i = 0; i + 1 < run.workers; ++i) helpers_[i]->start(run);
        first_.work(run);
        for (unsigned i = 0; i + 1 < run.workers; ++i) helpers_[i]->join();
    }

  private:
    struct Helper {
        std::mutex mutex;
        std::condition_variable changed;
        Run* run = nullptr;
        bool busy = false;  // it has woken up
        Worker worker;

        void serve() {
            for (std::unique_lock lock(mutex);;) {
                changed.wait(lock, [&] { return run; });
                busy = true;
                lock.unlock();
                worker.work(*run);
                lock.lock();
                run = nullptr, busy = false;
                changed.notify_all();
            }
        }
        void start(Run& now) {
            std::lock_guard lock(mutex);
            run = &now;
            changed.notify_all();
        }
        // A helper that still sleeps when the work is done need not wake; of a cooperative launch each has a share.
        void join() {
            std::unique_lock lock(mutex);
            if (run && !busy && !run->launch.cooperative) run = nullptr;
            changed.wait(lock, [&] { return !run; });
        }
    };
    std::mutex mutex_;
    pid_t owner_ = getpid();
    Worker first_;
    std::vector<std::unique_ptr<Helper>> helpers_;
};

// Never destroyed: at the end of the process its threads are still asleep in it.
static Pool& pool = *new Pool;

}  // namespace emu

EMU_EXPORT int emu_launch(Launch* launch) {
    Reports reports;
#ifdef EMU_CHECK
    unsigned workers = 1;  // the checker sees one access after the other
#else
    unsigned workers = std::max(1u, launch->threads);
#endif
    Run run(*launch, workers, reports);
#ifdef EMU_GUARD
    Stoppable stoppable;
#endif
    checker.begin(run);
    pool.work(run);
    checker.end();
    fflush(stdout);
    if (reports.empty()) return 0;
    launch->reports = strdup(reports.joined().c_str());
    return 1;
}

EMU_EXPORT uint32_t emu_variable_read([[maybe_unused]] const void* variable, [[maybe_unused]] size_t bytes,
    [[maybe_unused]] uint32_t since, [[maybe_unused]] uint32_t* now) {
#ifdef EMU_CHECK
    return checker.variable_read(uintptr_t(variable), bytes, since, *now);
#else
    return 0;
#endif
}

// Notes that the thread that runs launches a kernel; stamp: ~0 if nothing is checked.
EMU_EXPORT void emu_launches([[maybe_unused]] Parent* parent) {
#ifdef EMU_CHECK
    *parent = checker.launches(self());
#endif
}

EMU_EXPORT void emu_explain_with(Explanation (*explain)(const void* address)) { emu::explain = explain; }

EMU_EXPORT void emu_free_reports(Launch* launch) {
    free(launch->reports);
    launch->reports = nullptr;
}

// Memory whose address 256 divides, or null. In the check mode guard pages surround it.
EMU_EXPORT void* emu_allocate(size_t bytes, [[maybe_unused]] unsigned grain) {
#ifdef EMU_CHECK
    constexpr size_t GUARD = 1 << 20;
    size_t size = (bytes + 4095) / 4096 * 4096;
    char* memory = static_cast<char*>(mmap(nullptr, size + 2 * GUARD, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory == MAP_FAILED || mprotect(memory + GUARD, size, PROT_READ | PROT_WRITE)) return nullptr;
    uintptr_t low = uintptr_t(memory) + GUARD;
    checker.allocations[low] = {low, bytes, std::make_shared<Cells>(low, bytes, grain), std::make_unique<Lazy>(bytes)};
    return reinterpret_cast<void*>(low);
#else
    void* memory = nullptr;
    return posix_memalign(&memory, 256, bytes ? bytes : 1) ? nullptr : memory;
#endif
}

EMU_EXPORT void emu_free(void* memory, [[maybe_unused]] size_t bytes) {
#ifdef EMU_CHECK
    constexpr size_t GUARD = 1 << 20;
    checker.allocations.erase(uintptr_t(memory));
    munmap(static_cast<char*>(memory) - GUARD, (bytes + 4095) / 4096 * 4096 + 2 * GUARD);
#else
    free(memory);
#endif
}

// Memory of a module, a __constant__ variable, that counts as unwritten from now on.
EMU_EXPORT void emu_adopt([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes, [[maybe_unused]] unsigned grain)
    {
#ifdef EMU_CHECK
    uintptr_t low = uintptr_t(memory);
    checker.allocations[low] = {low, bytes, std::make_shared<Cells>(low, bytes, grain), std::make_unique<Lazy>(bytes)};
    checker.allocated(checker.allocations[low]);
#endif
}

// Bytes between the members of an array's elements, which no thread writes.
EMU_EXPORT void emu_padding([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes,
    [[maybe_unused]] const unsigned char* padding, [[maybe_unused]] size_t element) {
#ifdef EMU_CHECK
    checker.padded(uintptr_t(memory), bytes, padding, element);
#endif
}

// Memory of emu_adopt that is no longer an array.
EMU_EXPORT void emu_forget([[maybe_unused]] void* memory) {
#ifdef EMU_CHECK
    checker.allocations.erase(uintptr_t(memory));
#endif
}

// Number of unwritten elements of an array, the first of them and the number of gaps; 0 outside of the check mode.
EMU_EXPORT size_t emu_unwritten([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes,
    [[maybe_unused]] size_t element, [[maybe_unused]] size_t* first, [[maybe_unused]] size_t* gaps) {
#ifdef EMU_CHECK
    return checker.unwritten(uintptr_t(memory), bytes, element, *first, *gaps);
#else
    return 0;
#endif
}

// The host has filled memory, or copied it together with its unwritten bytes.
EMU_EXPORT void emu_written([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef EMU_CHECK
    checker.written(uintptr_t(memory), bytes);
#endif
}
// Ranges of an array that the last launch has read (0), written (1), or changed by atomic operations (2), in order.
EMU_EXPORT void emu_touched([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes,
    [[maybe_unused]] void (*note)(void* to, uintptr_t low, uintptr_t high, int how), [[maybe_unused]] void* to) {
#ifdef EMU_CHECK
    checker.touched(uintptr_t(memory), bytes, note, to);
#endif
}
EMU_EXPORT void emu_copied([[maybe_unused]] void* to, [[maybe_unused]] void* from, [[maybe_unused]] size_t bytes) {
#ifdef EMU_CHECK
    checker.copied(uintptr_t(to), uintptr_t(from), bytes);
#endif
}
