// Handlers of signals during launches. A fault in kernel code jumps back to the worker, which reports it. Ctrl-C and
// SIGTERM reach Python only when the launch has ended: a watcher stops one that runs on.
#include "guard.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>

#include "worker.h"

#ifdef EMU_GUARD

namespace emu {

static constexpr int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static constexpr int STOPS[] = {SIGINT, SIGTERM};
static constexpr auto LOOK = std::chrono::milliseconds(100);
static constexpr auto PATIENCE = std::chrono::seconds(2);  // for a launch to end by itself

static struct sigaction others[64];  // handlers of the rest of the process, by signal
static thread_local Guard* guard_here = nullptr;
static std::mutex guarded_mutex;
static std::vector<pthread_t> guarded;  // threads that run kernel code
static std::mutex stoppable_mutex;
static std::atomic<unsigned> launches{0}, running{0};  // all so far, and now
static std::atomic<bool> noting{false}, stopping{false};
static std::atomic<int> stopped_by{0};  // signal

static uintptr_t program_counter(void* context) {
#if defined(__x86_64__)
    return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
    return 0;
#endif
}

// Place in the module of a launch's kernel, or 0.
static uintptr_t inside(const Run& run, uintptr_t code) {
    Dl_info kernel, here;
    bool known = dladdr(run.launch.code, &kernel) && dladdr(reinterpret_cast<void*>(code), &here);
    return known && kernel.dli_fbase == here.dli_fbase ? code : 0;
}

static void pass_on(int number, siginfo_t* info, void* context) {
    struct sigaction& other = others[number];
    if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(number, info, context);
    if (other.sa_handler == SIG_IGN) return;
    if (other.sa_handler != SIG_DFL) return other.sa_handler(number);
    sigaction(number, &other, nullptr);  // it ends the process when it comes again
    if (number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL) raise(number);
}

static void fault(int number, siginfo_t* info, void* context) {
    Guard* guard = guard_here;
    if (!guard || !current) return pass_on(number, info, context);
    guard->signal = number;
    guard->address = info->si_addr;
    const char* below = worker_here && worker_here->here ? worker_here->here->low : nullptr;
    guard->is_full = number == SIGSEGV && size_t(below - static_cast<char*>(info->si_addr)) <= Stacks::PAGE;
    guard->code = inside(guard->run, program_counter(context));
    siglongjmp(guard->back, 1);
}

static int stop_signal() { return SIGRTMIN + 5; }

// A thread that is in the kernel's own code holds no lock, and leaves it.
static void stop(int number, siginfo_t*, void* context) {
    Guard* guard = guard_here;
    if (!stopping || !guard || !current) return;
    uintptr_t code = inside(guard->run, program_counter(context));
    if (!code) return;
    guard->signal = number;
    guard->code = code;
    siglongjmp(guard->back, 1);
}

static void note_stop(int number, siginfo_t* info, void* context) {
    stopped_by = number;
    pass_on(number, info, context);
}

static void install(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction* before) {
    struct sigaction action{};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &action, before);
}

// Notes signals from now on, or no longer.
static void note(bool on) {
    std::lock_guard lock(stoppable_mutex);
    if (noting == on || (on && !running)) return;
    for (int number : STOPS)
        if (on) install(number, note_stop, &others[number]);
        else sigaction(number, &others[number], nullptr);
    noting = on;
}

// Notes signals during long launches, and stops one that does not end after a signal.
static void watch() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the threads of Python
    for (unsigned seen = 0;;) {
        std::this_thread::sleep_for(LOOK);
        bool is_long = running && seen == launches;
        seen = launches;
        note(is_long);
        if (!is_long) stopped_by = 0;
        if (!stopped_by) continue;
        auto until = std::chrono::steady_clock::now() + PATIENCE;
        while (running && launches == seen && std::chrono::steady_clock::now() < until)
            std::this_thread::sleep_for(LOOK);
        for (stopping = true; running && launches == seen;) {
            {
                std::lock_guard lock(guarded_mutex);
                for (pthread_t thread : guarded) pthread_kill(thread, stop_signal());
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        stopping = false;
    }
}

static void prepare_process() {
    static std::atomic<pid_t> owner{0};
    if (owner == getpid()) return;
    std::lock_guard lock(stoppable_mutex);
    if (owner == getpid()) return;
    if (!owner) {
        for (int number : FAULTS) install(number, fault, &others[number]);
        install(stop_signal(), stop, nullptr);
    }
    new (&guarded) std::vector<pthread_t>;  // after a fork only the calling thread is left
    owner = getpid();
#ifndef EMU_CHECK
    std::thread(watch).detach();
#endif
}

// A thread that runs kernel code. The handlers have a stack of their own: those of CUDA threads are small, and may be
// full.
struct GuardedThread {
    GuardedThread() {
        constexpr size_t SIZE = 1 << 16;
        stack_t before{}, memory{};
        bool has_stack = !sigaltstack(nullptr, &before) && !(before.ss_flags & SS_DISABLE) && before.ss_size >= SIZE;
        if (!has_stack) {
            memory.ss_sp = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memory.ss_size = SIZE;
            if (memory.ss_sp != MAP_FAILED) sigaltstack(&memory, nullptr);
        }
        std::lock_guard lock(guarded_mutex);
        guarded.push_back(pthread_self());
    }
    ~GuardedThread() {
        std::lock_guard lock(guarded_mutex);
        std::erase(guarded, pthread_self());
    }
};

Guard::Guard(const Run& now) : run(now), outer(guard_here) {
    static thread_local GuardedThread thread;
    (void)thread;
    guard_here = this;
}

Guard::~Guard() { guard_here = outer; }

void Guard::leave_handler() const {
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, signal);
    pthread_sigmask(SIG_UNBLOCK, &mine, nullptr);
}

Report Guard::report() const {
    Report out{"out of bounds", "", "", "", "", {}};
    std::string who = current ? name_of(*current) : "a thread";
    if (current) out.block = text(block_of(*current).index), out.thread = text(current->index);
    if (code) out.places = {{nullptr, 0, reinterpret_cast<void*>(code + 1)}};
    std::string at = code ? " at {0}" : "";
    if (signal == stop_signal()) {
        out.kind = "stopped", out.array = std::to_string(stopped_by);
        out.message = who + " was" + at + " when the launch was stopped";
    } else if (signal == SIGFPE) out.kind = "division by zero", out.message = who + " divides by zero" + at;
    else if (is_full)
        out.kind = "stack overflow", out.message = who + " has filled its stack of "
            + std::to_string(Stacks::LEAST >> 10) + " KB" + at
            + ": a recursion does not end, or local arrays are too large";
    else if (signal == SIGILL) out.kind = "trap", out.message = who + " has no instruction to go on with" + at;
    else if (explain) out.message = who + " reads or writes" + at + " what is not its own: " + explain(address).text;
    else out.message = who + " reads or writes outside of all arrays" + at;
    return out;
}

Stoppable::Stoppable() {
    prepare_process();
    ++running;
    ++launches;
}

Stoppable::~Stoppable() {
    if (--running == 0 && noting) note(false);
}

}  // namespace emu

#endif
