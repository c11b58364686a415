// State of a running program: its allocations, its errors, and the reports that Python prints when it has ended.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../headers/launch.h"

// Functions of the emulator's runtime (device/emulator/runtime/launch.cpp).
EMU_EXPORT int emu_launch(emu::Launch* launch);
EMU_EXPORT void emu_launches(emu::Parent* parent);
EMU_EXPORT uint32_t emu_variable_read(const void* variable, size_t bytes, uint32_t since, uint32_t* now);
EMU_EXPORT char* emu_stuck();
EMU_EXPORT void emu_free_reports(emu::Launch* launch);
EMU_EXPORT void emu_explain_with(emu::Explanation (*explain)(const void* address));
EMU_EXPORT void emu_adopt(void* memory, size_t bytes, unsigned grain);
EMU_EXPORT void emu_forget(void* memory);
EMU_EXPORT void emu_padding(void* memory, size_t bytes, const unsigned char* padding, size_t element);
EMU_EXPORT void emu_written(void* memory, size_t bytes);
EMU_EXPORT size_t emu_unwritten(void* memory, size_t bytes, size_t element, size_t* first, size_t* gaps);
EMU_EXPORT void emu_copied(void* to, void* from, size_t bytes);
EMU_EXPORT void emu_touched(void* memory, size_t bytes, void (*note)(void* to, uintptr_t low, uintptr_t high, int how),
    void* to);

struct CUgraphNode_st;

namespace emu {

struct Spot {  // of a call in the program
    const char* file;
    int line;
};

// Memory of the device, managed memory, or page-locked memory of the host. A freed one stays in the list, without
// access, so that a later use is recognised.
struct Allocation {
    uintptr_t low;
    size_t bytes;
    cudaMemoryType type;
    std::string name, file;
    int line;
    bool freed = false;
    std::string freed_file;
    int freed_line = 0;
    uintptr_t mapped = 0;  // first byte of the pages, and their bytes without the guards
    size_t pages = 0;
    unsigned element = 1;  // bytes of what the program's pointer points to
    std::string launch;    // last one that got a pointer into it, and its number of threads
    size_t threads = 0;
    bool of_host_code = true;  // false if a kernel allocated it
    // checked programs: kernel that wrote to it last, with its line; whether a kernel or a copy has read it
    std::string writer;
    Spot written_at{};
    dim3 grid, block;    // of that launch, and the bytes that its threads stored
    uint64_t stored = 0;
    size_t reached = 0;  // elements that it changed in place, if it gets their number and its grid is rounded down
    bool is_read = false;
    size_t pitch = 0, width = 0, rows = 0;  // of memory by cudaMallocPitch, in bytes
    Spot too_early{};  // copy of it to the host before anything had written to it
    uintptr_t high() const { return low + bytes; }
};

struct Host {
    std::recursive_mutex mutex;
    std::map<uintptr_t, Allocation> allocations;  // by address
    cudaError_t last = cudaSuccess, sticky = cudaSuccess;
    std::string unread;       // launch whose error no call has returned yet
    Spot unread_at{};
    std::map<std::string, Spot> asked;  // algorithms that gave the bytes of their temporary memory and have not run
    std::vector<std::pair<std::string, Spot>> ignored;  // results of calls that are statements; no call has read them
    unsigned launches = 0;
    std::string running;      // kernel of the current launch
    int device = 0;
    bool has_streams = false;       // of its own
    bool are_results_read = false;  // something that a kernel has stored or printed has come to the host
};
Host& host();

// Mutex of the host's state for threads of kernels, which take turns while the host waits for its launch.
inline std::recursive_mutex& of_kernels() {
    static auto& mutex = *new std::recursive_mutex;
    return mutex;
}
struct Lock {
    std::lock_guard<std::recursive_mutex> guard{current ? of_kernels() : host().mutex};
};

// A launch for later: a node of a graph, or a launch by a kernel.
struct StoredLaunch {
    explicit StoredLaunch(const Request& request);
    void run() const;
    bool is_last = false;      // a tail launch: after all others
    Parent parent{};
    std::string of;            // the kernel that made it

  private:
    std::vector<std::vector<char>> values;  // the call and the arguments
    std::vector<void*> body;
    std::vector<const void*> pointers;
    std::string name;
    Config config;
    Request request;
};

// errors.cpp. A fault is reported once for its place; fault: "problem" or "remark".
void report(const char* fault, const char* kind, const std::string& message, const std::string& array, Spot place,
    const std::string& kernel = "", uintptr_t code = 0);  // code: of {1}, counted from the program's first byte
void report_text(const char* fault, const std::string& kernel, const std::string& text);
cudaError_t failed(cudaError_t error);    // notes the error that a call returns
cudaError_t returned(cudaError_t error);  // an error of an earlier launch that a call returns
std::string place_of(const std::string& file, int line);

bool has_children();  // kernels that kernels have launched, and that have not run

// memory.cpp
Allocation* find(const void* pointer);      // that an address is in, freed ones too, or null
Allocation* nearest(const void* pointer);   // that an address is in or in the guards of
bool is_in_program(const void* pointer);    // a variable of the program, with __device__ or without
std::string described(const Allocation& allocation);
std::string explained(const void* address);
size_t overrun(Allocation& allocation);      // bytes after its end that were written since the last call
extern std::atomic<bool> is_launching;
void watch_launch();                        // so that a signal ends it with its place, in the check mode
void launch_ended();                        // ends the program if a signal came
extern Spot copying;                        // copy that runs, whose pointer of the host may be wild
void open_memory(bool open);                // to kernels and copies; to host code the device's memory is closed
void leaks();
void late_variables();                      // filled only after the launches that read them
const char* type_name(cudaMemoryType type);

// host_arrays.cpp: the array of the host that an address is in, without a name if it is not known
struct HostArray {
    std::string name;  // and "of"
    size_t offset = 0, bytes = 0;  // of a local variable: most bytes that it has
    uintptr_t code = 0;            // of its allocation, counted from the program's first byte
};
HostArray host_array(const void* pointer);
HostArray of_host(const void* pointer);  // of the heap, or of the stack of the thread that launches
void pointers_in_arguments(const Request& request);
uintptr_t program_base();

// streams.cpp: true, and reported, for a call by a function of the host that a stream calls
bool is_in_host_function(const char* call, Spot place);

// graphs.cpp
bool spoils_captures(const char* call, Spot place);  // a call that waits for all streams while one is captured
bool joins_captures(const std::string& work, cudaStream_t stream, Spot place);  // work of the default stream meanwhile

// arrival.cpp
// During its life work of the default stream belongs to a kernel's stream, if its children run, and all work to the
// stream in which a graph was launched, in whatever stream it was captured.
struct StreamOfGraph {
    explicit StreamOfGraph(cudaStream_t stream, bool takes_all = false);
    ~StreamOfGraph();
    cudaStream_t before;
    bool took_all;
};
// During its life each step of a graph that runs is a stream of its own.
struct StepsOfGraph {
    StepsOfGraph();
    ~StepsOfGraph();
    void begin(const void* step, const std::vector<CUgraphNode_st*>& after);
    const void *base, *outer;
    std::vector<const void*> steps;
};
bool is_graph_step();
void stream_created(cudaStream_t stream, unsigned flags);
void host_waits(cudaStream_t stream);
void host_waits_for_all();
void host_function_ended();
void host_waits_for(const void* event);
void event_recorded(const void* event, cudaStream_t stream);
void stream_waits(cudaStream_t stream, const void* event);
void copy_queued(const Copy& copy, bool to_host, Spot place);
void fill_queued(const Copy& target, Spot place);
void open_arriving(bool open);  // to kernels and copies
std::string on_its_way(const void* address, std::string& array, bool& is_read);
bool is_graph_running();
bool is_waited_for(const void* event);  // the host knows that all work before it has ended
void launch_queued(const Request& request, const std::vector<View>& views);
void has_printed(const Request& request);
void unshown_prints();          // at the end: a GPU shows what a kernel prints when the program waits for it
bool are_ordered(const void* earlier, unsigned number, const void* later);  // work of one stream before that of another
bool is_waited_for(const void* stream, unsigned number);  // the host knows that this work has ended

// overlap.cpp: work of several streams on the same memory
void overlaps_of_launch(const Request& request, const std::vector<View>& views, const void* stream, unsigned number);
void overlaps_of_copy(const Copy& copy, const void* stream, unsigned number, Spot place);
void unread_results();  // remarks, at the end

// device.cpp: number by name in the description of the GPU
double fact(const char* name);

}  // namespace emu
