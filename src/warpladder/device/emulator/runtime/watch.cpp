// Positions of the threads of a launch that does not end. Another OS thread (Python's) calls emu_stuck; a signal makes
// each worker inspect its own stack.
#include <pthread.h>
#include <signal.h>
#include <unwind.h>

#include "worker.h"

namespace emu {

static std::mutex watched_mutex;
static std::vector<std::pair<pthread_t, Worker*>> watched;

// Answer of the last worker.
static struct {
    std::atomic<bool> given{false};
    uintptr_t base, code;  // of the kernel's module, and in it
    bool thread;
    uint3 index, block;
} answer;

static _Unwind_Reason_Code in_kernel(_Unwind_Context* frame, void*) {
    int exact = 0;  // set for the interrupted frame; other frames have the address after a call
    uintptr_t at = _Unwind_GetIPInfo(frame, &exact);
    Dl_info module;
    if (!dladdr(reinterpret_cast<void*>(at), &module) || uintptr_t(module.dli_fbase) != answer.base)
        return _URC_NO_REASON;
    answer.code = at + unsigned(exact);
    return _URC_END_OF_STACK;
}

static void look(int, siginfo_t*, void*) {
    answer.code = 0;
    answer.thread = current != nullptr;
    if (current) answer.index = current->index, answer.block = current->block->index;
    _Unwind_Backtrace(in_kernel, nullptr);
    answer.given = true;
}

// The handler has its own stack: those of CUDA threads are small.
static void give_stack() {
    static thread_local bool ready = false;
    if (ready) return;
    ready = true;
    constexpr size_t SIZE = 1 << 18;
    stack_t memory{};
    memory.ss_sp = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory.ss_size = SIZE;
    if (memory.ss_sp != MAP_FAILED) sigaltstack(&memory, nullptr);
}

// A process may have the runtimes of several modes, and one handler of a signal: it is that of the launch that runs.
static void prepare() {
    give_stack();
    struct sigaction action{};
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
}

Watch::Watch(Worker& worker) {
    if (!worker.run->launch.watched) return;
    prepare();
    std::lock_guard lock(watched_mutex);
    watched.push_back({pthread_self(), &worker});
}

Watch::~Watch() {
    if (!worker_here->run->launch.watched) return;
    std::lock_guard lock(watched_mutex);
    watched.erase(std::find_if(watched.begin(), watched.end(), [](auto& entry) {
        return entry.second == worker_here; }));
}

static bool ask(pthread_t thread, Worker& worker) {
    Dl_info module;
    if (!dladdr(worker.run->launch.code, &module)) return false;
    answer.base = uintptr_t(module.dli_fbase);
    answer.given = false;
    if (pthread_kill(thread, SIGUSR2)) return false;
    for (int waited = 0; waited < 1000 && !answer.given; ++waited)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return answer.given;
}

static Report slow(const Run& run) {
    Report report{"time limit", "", "", "", "", {}};
    std::string blocks = std::to_string(run.ended) + " of " + std::to_string(run.units)
        + (run.units == 1 ? " block has" : " blocks have") + " ended";
    if (answer.thread) {
        report.block = text(answer.block), report.thread = text(answer.index);
        report.message = "block " + report.block + " thread " + report.thread + " is at {0}, " + blocks;
    } else {
        report.message = "its threads are at {0}, " + blocks;
    }
    report.places = {{nullptr, 0, reinterpret_cast<void*>(answer.code)}};
    return report;
}

}  // namespace emu

// Place of a thread of the running launch, and its faults so far, as text; null if none runs or answers. The text is
// not freed.
EMU_EXPORT char* emu_stuck() {
    using namespace emu;
    std::lock_guard lock(watched_mutex);
    for (auto& [thread, worker] : watched)
        for (int tried = 0; tried < 20; ++tried) {
            if (!ask(thread, *worker)) break;
            if (!answer.code) continue;
            Run& run = *worker->run;
            return strdup((Reports::line(slow(run), answer.base) + run.reports.joined()).c_str());
        }
    return nullptr;
}
