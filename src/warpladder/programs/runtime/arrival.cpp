// What the host and each stream know to have ended, and results that are still on their way. Work is done when it is
// requested; memory of the host that it changed stays closed to host code until the program waits for it, as a GPU
// would have it. A clock has the number of the last piece of work that is known of each stream.
#include <sys/mman.h>

#include "host.h"

namespace emu {

using Clock = std::map<const void*, unsigned>;

struct StreamOrder {
    Clock known;
    bool waits_for_default = true;  // false if it was created as cudaStreamNonBlocking
};
static auto& orders = *new std::map<const void*, StreamOrder>;
static auto& host_knows = *new Clock;
static unsigned work = 0;  // number of the last piece

// Memory that host code may not touch, or only read, until it knows of a piece of work.
struct Arriving {
    uintptr_t pages;
    size_t bytes;
    const void* stream;
    unsigned work;
    std::string what, array;
    bool is_read;  // by the work, so that the host may read too
};
static auto& arriving = *new std::vector<Arriving>;

static void join(Clock& clock, const Clock& other) {
    for (auto& [stream, number] : other) clock[stream] = std::max(clock[stream], number);
}

static cudaStream_t graph_stream = nullptr;  // of the graph that runs
static bool takes_all_work = false;
static const void* graph_step = nullptr;  // of the graph that runs: a stream of its own
bool is_graph_running() { return graph_stream; }
StreamOfGraph::StreamOfGraph(cudaStream_t stream, bool takes_all) : before(graph_stream), took_all(takes_all_work) {
    if (stream || takes_all) graph_stream = stream;
    takes_all_work = takes_all;
}
StreamOfGraph::~StreamOfGraph() { graph_stream = before, takes_all_work = took_all; }

// The default stream and cudaStreamLegacy are one.
static const void* key(cudaStream_t stream) {
    if (takes_all_work && graph_step) return graph_step;
    if (takes_all_work || (!stream && graph_stream)) stream = graph_stream;
    return uintptr_t(stream) == 1 ? nullptr : stream;
}

void stream_created(cudaStream_t stream, unsigned flags) {
    orders[stream] = {host_knows, !(flags & cudaStreamNonBlocking)};
    host().has_streams = true;
}

// Adds work to a stream: it begins after everything that the stream and the host know. Its number.
static unsigned queued(const void* stream) {
    Clock& own = orders[stream].known;
    join(own, host_knows);
    if (!stream) {
        for (auto& [other, order] : orders)
            if (order.waits_for_default) join(own, order.known);
    } else if (orders[stream].waits_for_default) {
        join(own, orders[nullptr].known);
    }
    return own[stream] = ++work;
}

// The steps of a graph know what the graph's stream did before it, and the steps that they depend on.
StepsOfGraph::StepsOfGraph() : base(key(nullptr)), outer(graph_step) { queued(base); }
void StepsOfGraph::begin(const void* step, const std::vector<CUgraphNode_st*>& after) {
    StreamOrder order{orders[base].known, false};
    for (const void* each : after) join(order.known, orders[each].known);
    orders[graph_step = step] = order;
    steps.push_back(step);
}
StepsOfGraph::~StepsOfGraph() {
    graph_step = outer;
    for (const void* step : steps) join(orders[base].known, orders[step].known);
    for (const void* step : steps) orders.erase(step);
}
bool is_graph_step() { return graph_step; }

static bool has(const Clock& clock, const void* stream, unsigned number) {
    auto known = clock.find(stream);
    return known != clock.end() && known->second >= number;
}
bool are_ordered(const void* earlier, unsigned number, const void* later) {
    return earlier == later || has(orders[later].known, earlier, number);
}
bool is_waited_for(const void* stream, unsigned number) { return has(host_knows, stream, number); }

void open_arriving(bool open) {
    for (auto& piece : arriving)
        mprotect((void*)piece.pages, piece.bytes, open ? PROT_READ | PROT_WRITE : piece.is_read ? PROT_READ
            : PROT_NONE);
}

// The host knows more: what has arrived is open to it.
static void arrived() {
    if (arriving.empty()) return;
    open_arriving(true);
    std::erase_if(arriving, [](const Arriving& piece) { return is_waited_for(piece.stream, piece.work); });
    open_arriving(false);
}
static void host_knows_all_of(const void* id) {
    join(host_knows, orders[id].known);
    if (!id)
        for (auto& [other, order] : orders)
            if (order.waits_for_default) join(host_knows, order.known);
    arrived();
}
void host_waits(cudaStream_t stream) {
    if (!takes_all_work) host_knows_all_of(key(stream));  // the host waits for no copy of a graph
}
void host_waits_for_all() {
    for (auto& [stream, order] : orders) join(host_knows, order.known);
    arrived();
}

// What the host knew before a stream called the function that runs.
static struct {
    bool is_kept = false;
    Clock known;
    std::vector<Arriving> closed;
} before_function;
void host_function_ended() {
    if (!std::exchange(before_function.is_kept, false)) return;
    host_knows = before_function.known, arriving = before_function.closed;
    open_arriving(false);
}

// Knowledge that an event brings to the host or to another stream.
static auto& recorded = *new std::map<const void*, Clock>;
void event_recorded(const void* event, cudaStream_t stream) {
    queued(key(stream));
    recorded[event] = orders[key(stream)].known;
}
void stream_waits(cudaStream_t stream, const void* event) { join(orders[key(stream)].known, recorded[event]); }
bool is_waited_for(const void* event) {
    for (auto& [stream, number] : recorded[event])
        if (!is_waited_for(stream, number)) return false;
    return true;
}
void host_waits_for(const void* event) {
    join(host_knows, recorded[event]);
    arrived();
}

#ifdef EMU_CHECK
// Whole pages of a range of an allocation; all its pages if the range is all of it.
static void closed(const Allocation& a, uintptr_t low, size_t bytes, const void* stream, const std::string& what,
    bool is_read = false) {
    constexpr uintptr_t PAGE = 4096;
    uintptr_t first = low == a.low ? a.mapped : (low + PAGE - 1) / PAGE * PAGE;
    uintptr_t last = low + bytes >= a.high() ? a.mapped + a.pages : (low + bytes) / PAGE * PAGE;
    if (!a.mapped || last <= first) return;
    arriving.push_back({first, last - first, stream, work, what + (is_read ? " reads " : " changes ") + described(a),
        a.name, is_read});
    mprotect((void*)first, last - first, is_read ? PROT_READ : PROT_NONE);
}

void copy_queued(const Copy& c, bool to_host, Spot place) {
    Allocation* a = find(c.to);
    const bool is_async = c.is_async && (!to_host || (a && a->type == cudaMemoryTypeHost));
    const void* stream = key(c.stream);
    overlaps_of_copy(c, stream, queued(stream), place);
    if (to_host) host().are_results_read = true;
    if (!is_async) return host_waits(c.stream);
    const std::string what = std::string(c.call) + " at " + place_of(place.file, place.line);
    if (to_host && c.height == 1) closed(*a, uintptr_t(c.to), c.width, stream, what);
    const Allocation* source = find(c.from);
    if (source && source->type == cudaMemoryTypeHost && c.height == 1)
        closed(*source, uintptr_t(c.from), c.width, stream, what, true);
}

void fill_queued(const Copy& c, Spot place) {
    const void* stream = key(c.stream);
    overlaps_of_copy(c, stream, queued(stream), place);
}

// Libraries wait for their work where the host needs its result.
static bool is_of_library(const std::string& name) {
    for (const char* library : {"thrust", "cub", "cu"})
        if (name.starts_with(library)) return true;
    return name.find("thrust::") != name.npos;
}

// Memory of the host that a kernel has only read stays readable. The ranges take time: of small arrays, and of the
// first launches.
static void closed_to_writes(const Allocation& a, const void* stream, const std::string& what) {
    static int left = 256;
    if (a.bytes > size_t(1) << 20 || left-- <= 0) return;
    std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
    emu_touched((void*)a.low, a.bytes, [](void* to, uintptr_t low, uintptr_t high, int) {
        auto& all = *static_cast<decltype(ranges)*>(to);
        if (all.empty() || all.back().second != low) all.emplace_back(low, high);
        else all.back().second = high;
    }, &ranges);
    for (auto [low, high] : ranges) closed(a, low, high - low, stream, what, true);
}

// Memory of the host that a kernel has written to; not what it and the host change together, by volatile accesses or
// atomic operations of the whole system.
void launch_queued(const Request& r, const std::vector<View>& views) {
    const void* stream = key(r.config.stream);
    unsigned number = queued(stream);
    if (is_of_library(r.name)) host().are_results_read = true;
    overlaps_of_launch(r, views, stream, number);
    if (is_of_library(r.name)) return host_waits(r.config.stream);
    for (const View& view : views) {
        Allocation* a = find((void*)view.low);
        if (!a || a->type == cudaMemoryTypeDevice || view.touched & 4) continue;
        const std::string what = std::string("kernel ") + r.name + ", launched at "
            + place_of(r.config.file, r.config.line) + ",";
        if (view.touched & 2) closed(*a, a->low, a->bytes, stream, what);
        else if (view.touched & 1) closed_to_writes(*a, stream, what);
    }
}
// The last launch that has printed.
static struct {
    std::string name;
    Spot place;
    const void* stream;
    unsigned work = 0;
} printed;
void has_printed(const Request& r) { printed = {r.name, {r.config.file, r.config.line}, key(r.config.stream), work}; }
void unshown_prints() {
    if (printed.work && !is_waited_for(printed.stream, printed.work))
        report("problem", "not arrived", "the program ends and has not waited for kernel " + printed.name
            + ", launched at {0}: a GPU does not show what it prints", "", printed.place, printed.name);
}
#else
void has_printed(const Request&) {}
void unshown_prints() {}
void copy_queued(const Copy&, bool, Spot) {}
void fill_queued(const Copy&, Spot) {}
void launch_queued(const Request&, const std::vector<View>&) {}
#endif

// Reason why an address is closed, and its array; it is opened. Work that changes it comes first: it closes it to reads
// too.
std::string on_its_way(const void* address, std::string& array, bool& is_read) {
    for (bool wanted : {false, true})
        for (auto& piece : arriving)
            if (piece.is_read == wanted && uintptr_t(address) - piece.pages < piece.bytes) {
                array = piece.array, is_read = wanted;
                std::string what = piece.what;
                mprotect((void*)piece.pages, piece.bytes, PROT_READ | PROT_WRITE);
                arriving.erase(arriving.begin() + (&piece - arriving.data()));
                return what;
            }
    return "";
}

}  // namespace emu

// A host function in a stream may read the writes of all earlier work of the stream. What it knows the rest of the host
// knows too if the program's text has something by which it may say so, as an atomic flag.
EMU_EXPORT void emu_host_waits(cudaStream_t stream) {
    emu::Lock lock;
    static const bool has_signals = getenv("WARPLADDER_SIGNALS");
    if (!has_signals) emu::before_function = {true, emu::host_knows, emu::arriving};
    emu::host_knows_all_of(emu::key(stream));
}
