// Errors of calls, and reports. A report is a record in the file that WARPLADDER_REPORTS names: what it is, kernel,
// number of launches so far, and the fault as the emulator writes it; Python finds the lines and prints it.
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "host.h"

namespace emu {

Host& host() {
    static Host& host = *new Host;  // never destroyed: other objects of the program may call to the end
    return host;
}

void report_text(const char* fault, const std::string& kernel, const std::string& text) {
    static int file = [] {
        const char* name = getenv("WARPLADDER_REPORTS");
        return name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : 2;
    }();
    static auto& written = *new std::set<std::string>;
    if (!written.insert(kernel + '\x1d' + text).second) return;
    std::string record = std::string(fault) + '\x1d' + kernel + '\x1d' + std::to_string(host().launches) + '\x1d'
        + text + '\x1c';
    if (write(file, record.data(), record.size()) < 0) return;
}

static std::set<std::pair<std::string, int>>& reported() {
    static auto& places = *new std::set<std::pair<std::string, int>>;
    return places;
}
static bool is_reported(Spot place) { return reported().count({place.file, place.line}); }

void report(const char* fault, const char* kind, const std::string& message, const std::string& array, Spot place,
    const std::string& kernel, uintptr_t code) {
    static auto& seen = *new std::set<std::string>;
    std::string at = place.file ? std::string("@") + place.file + ":" + std::to_string(place.line) + ":0\x1f" : "";
    if (code) at += '+' + std::to_string(code) + '\x1f';
    if (!seen.insert(kind + array + (at.empty() ? message : at)).second) return;
    if (place.file) reported().insert({place.file, place.line});
    report_text(fault, kernel, std::string(kind) + '\x1f' + message + '\x1f' + array + "\x1f\x1f\x1f" + at + '\x1e');
}

std::string place_of(const std::string& file, int line) {
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(line);
}

cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) host().last = error;
    return error;
}

// A sticky error is returned by every call from then on.
cudaError_t returned(cudaError_t error) {
    if (host().sticky != cudaSuccess) {
        host().unread.clear();
        return host().sticky;
    }
    return error;
}

// At the end: a launch whose error no call has returned, and memory that was not freed.
static void at_end() {
    if (!host().unread.empty())
        report("problem", "unread error", host().unread + ", and the program never reads the error", "",
            host().unread_at);
    for (auto& [name, place] : host().asked)
        report("problem", "temporary memory", name + " at {0} gets no temporary memory, so that it only gives the "
            "bytes that it needs, and it is never called with them", "", place);
    for (auto& [message, place] : host().ignored)
        if (!is_reported(place)) report("problem", "unread error", message, "", place);
    if (host().sticky != cudaSuccess) return;
    unshown_prints();
    unread_results();
    leaks();
    late_variables();
}

std::atomic<bool> is_launching{false};

static std::atomic<int> ending{0};  // signal that came during a launch
#ifdef EMU_CHECK
static sem_t stopping;
#endif

static void end(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

// Ctrl-C and SIGTERM end the program. A long launch is stopped by the emulator, which reports where it was; a short one
// ends first. In the check mode another thread finds where the launch is, and ends the program.
static void stop(int number) {
    if (!is_launching) return end(number);
    ending = number;
#ifdef EMU_CHECK
    sem_post(&stopping);
#endif
}

#ifdef EMU_CHECK
void watch_launch() {
    static bool once = [] {
        std::thread([] {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_BLOCK, &all, nullptr);
            while (sem_wait(&stopping)) {}
            for (int tried = 0; tried < 5; ++tried)  // on its way to the runtime a thread has no line
                if (const char* where = emu_stuck()) report_text("problem", host().running, where);
            fflush(nullptr);
            _exit(128 + ending);
        }).detach();
        return true;
    }();
    (void)once;
}
#endif

void launch_ended() {
    is_launching = false;
    if (int number = ending) end(number);
}

static struct Beginning {
    Beginning() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef EMU_CHECK
        sem_init(&stopping, 0, 0);
#endif
        for (int number : {SIGINT, SIGTERM}) signal(number, stop);
        atexit(at_end);
    }
} beginning;

}  // namespace emu

using namespace emu;

EMU_API cudaPeekAtLastError() {
    Lock lock;
    host().unread.clear(), host().ignored.clear();
    return host().sticky != cudaSuccess ? host().sticky : host().last;
}
EMU_API cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    host().last = cudaSuccess;
    return error;
}

EMU_EXPORT const char* cudaGetErrorString(cudaError_t error) {
    switch (int(error)) {
#define EMU_CASE(name, number, text) case number: return text;
        EMU_ERRORS(EMU_CASE)
#undef EMU_CASE
    }
    return "unrecognized error code";
}
EMU_EXPORT const char* cudaGetErrorName(cudaError_t error) {
    switch (int(error)) {
#define EMU_CASE(name, number, text) case number: return #name;
        EMU_ERRORS(EMU_CASE)
#undef EMU_CASE
    }
    return "unrecognized error code";
}

// Ends a program that comes to a function of a library which is not emulated.
EMU_EXPORT void emu_refuse(const char* name, const char* library, const void* address) {
    Dl_info file;
    std::string place = dladdr(address, &file) && file.dli_fbase
        ? "+" + std::to_string(uintptr_t(address) - uintptr_t(file.dli_fbase)) + '\x1f' : "";
    report_text("problem", "", std::string("refused\x1f") + (place.empty() ? "" : "{0}: ") + name + " is of " + library
        + ", which cannot be emulated\x1f\x1f\x1f\x1f" + place + '\x1e');
    fflush(nullptr);
    _exit(2);
}

EMU_EXPORT void emu_too_small(const char* call, const char* name, long long number, long long least, const char* file,
    int line) {
    report("problem", "argument", std::string(call) + " at {0} is refused, and nothing is computed: " + name + " is "
        + std::to_string(number) + ", and has to be " + std::to_string(least) + " at least", "", {file, line});
}
EMU_EXPORT void emu_asked(const char* name, const void* temporary, const char* file, int line) {
    Lock lock;
    if (temporary) host().asked.erase(name);
    else host().asked.insert({name, {file, line}});
}

// The result of a call that stands as a statement of its own. A later cudaGetLastError() may still read it.
EMU_API emu_unread(cudaError_t error, const char* call, const char* file, int line) {
    static bool is_known = false;  // after a launch's fault all calls return its error
    if (error != cudaSuccess && error == host().sticky && std::exchange(is_known, true)) return error;
    if (error == cudaSuccess || error == cudaErrorNotReady) return error;
    Lock lock;
    if (host().ignored.size() < 100)
        host().ignored.push_back({std::string(call) + " at {0} returns " + cudaGetErrorName(error) + " ("
            + cudaGetErrorString(error) + "), and the program does not read it", {file, line}});
    return error;
}
