// Streams and events. Work is done when it is requested, so a stream is always empty, and an event is a time of the
// clock; what the program must wait for is in arrival.cpp.
#include <chrono>
#include <set>

#include "host.h"

struct CUstream_st {
    int priority;
    struct CUgraph_st* captured = nullptr;  // graph that stores its work
    bool is_blocking = true;                // the default stream waits for it, and it for the default stream
    std::map<CUstream_st*, int> before{};   // pieces of each captured stream's work that what comes next is after
};
struct CUevent_st {
    std::chrono::steady_clock::time_point at;
    bool is_recorded, is_timed;
    struct CUgraph_st* captured = nullptr;  // graph in which it was recorded
    std::map<CUstream_st*, int> before{};   // as its stream's
};

namespace emu {

static auto& streams = *new std::set<void*>;
static auto& handles = *new std::set<void*>;  // events

// The stream that a handle stands for: cudaStreamPerThread is one, and 0 and cudaStreamLegacy, which wait for all
// others, are none.
static CUstream_st* body_of(cudaStream_t stream) {
    static auto& per_thread = *new CUstream_st{0};
    return uintptr_t(stream) > 2 ? stream : stream == cudaStreamPerThread ? &per_thread : nullptr;
}
static std::vector<CUstream_st*> every_stream() {
    std::vector<CUstream_st*> out{body_of(cudaStreamPerThread)};
    for (void* each : streams) out.push_back(static_cast<CUstream_st*>(each));
    return out;
}

// graphs.cpp
static bool is_captured_now(const CUgraph_st* graph);
static bool spoils_capture(const char* call, cudaStream_t stream, Spot place);

// A stream that the program made, or one of the three that are always there.
static bool is_stream(cudaStream_t stream) { return uintptr_t(stream) <= 2 || streams.count(stream); }

static thread_local Spot host_function{};
bool is_in_host_function(const char* call, Spot place) {
    if (!host_function.file) return false;
    report("problem", "host function", std::string(call) + " at {0} is called by a function that a stream calls, since "
        + place_of(host_function.file, host_function.line) + ": such a function must not call CUDA", "", place);
    failed(cudaErrorNotPermitted);
    return true;
}

static cudaError_t known(bool is_there, const char* what, Spot place) {
    if (is_there) return returned(cudaSuccess);
    report("problem", "handle", std::string(what) + " at {0} gets a handle that was not created, or is destroyed", "",
        place);
    return failed(cudaErrorInvalidResourceHandle);
}

}  // namespace emu

using namespace emu;

#define EMU_KNOWN(is_there, what) \
    Lock lock; \
    if (cudaError_t error = known(is_there, what, {file, line})) return error

EMU_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    Lock lock;
    streams.insert(*stream = new CUstream_st{priority, nullptr, !(flags & cudaStreamNonBlocking)});
    stream_created(*stream, flags);
    return returned(cudaSuccess);
}
EMU_API cudaStreamDestroy(cudaStream_t stream, const char* file, int line) {
    EMU_KNOWN(streams.erase(stream), "cudaStreamDestroy");
    delete stream;
    return cudaSuccess;
}
EMU_EXPORT void emu_host_function(const char* file, int line) {
    host_function = {file, line};
    if (!file) host_function_ended();
}
EMU_API cudaStreamSynchronize(cudaStream_t stream, const char* file, int line) {
    EMU_KNOWN(is_stream(stream), "cudaStreamSynchronize");
    if (is_in_host_function("cudaStreamSynchronize", {file, line})) return cudaErrorNotPermitted;
    if (spoils_capture("cudaStreamSynchronize", stream, {file, line})) return cudaErrorStreamCaptureUnsupported;
    host_waits(stream);
    return cudaSuccess;
}
EMU_API cudaStreamQuery(cudaStream_t stream, const char* file, int line) {
    EMU_KNOWN(is_stream(stream), "cudaStreamQuery");
    if (spoils_capture("cudaStreamQuery", stream, {file, line})) return cudaErrorStreamCaptureUnsupported;
    host_waits(stream);
    return cudaSuccess;
}
EMU_API cudaDeviceSynchronize(const char* file, int line) {
    Lock lock;
    if (current) {
        if (has_children())
            report("problem", "child kernel", "cudaDeviceSynchronize at {0} does not wait for the kernels that a "
                "kernel has launched: since CUDA 12 kernels cannot call it, and they may end after their parent",
                "", {file, line});
        return cudaSuccess;
    }
    if (is_in_host_function("cudaDeviceSynchronize", {file, line})) return cudaErrorNotPermitted;
    if (spoils_capture("cudaDeviceSynchronize", nullptr, {file, line})) return cudaErrorStreamCaptureUnsupported;
    host_waits_for_all();
    return returned(cudaSuccess);
}

EMU_API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    Lock lock;
    handles.insert(*event = new CUevent_st{{}, false, !(flags & cudaEventDisableTiming)});
    return returned(cudaSuccess);
}
EMU_API cudaEventDestroy(cudaEvent_t event, const char* file, int line) {
    EMU_KNOWN(handles.erase(event), "cudaEventDestroy");
    delete event;
    return cudaSuccess;
}
EMU_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream, const char* file, int line) {
    EMU_KNOWN(handles.count(event) && is_stream(stream), "cudaEventRecord");
    event_recorded(event, stream);
    event->at = std::chrono::steady_clock::now(), event->is_recorded = true;
    event->captured = body_of(stream) ? body_of(stream)->captured : nullptr;
    if (event->captured) event->before = body_of(stream)->before;
    return cudaSuccess;
}
// A stream that waits for an event of a captured one is captured too.
EMU_API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned, const char* file, int line) {
    EMU_KNOWN(handles.count(event) && is_stream(stream), "cudaStreamWaitEvent");
    stream_waits(stream, event);
    CUstream_st* own = body_of(stream);
    if (!event->captured || !own) return cudaSuccess;
    if (own->captured != event->captured) own->before.clear();
    own->captured = event->captured;
    for (auto [each, pieces] : event->before) own->before[each] = std::max(own->before[each], pieces);
    return cudaSuccess;
}
EMU_API cudaEventSynchronize(cudaEvent_t event, const char* file, int line) {
    EMU_KNOWN(handles.count(event), "cudaEventSynchronize");
    if (event->captured && is_captured_now(event->captured)
        && spoils_capture("cudaEventSynchronize", nullptr, {file, line})) return cudaErrorStreamCaptureUnsupported;
    host_waits_for(event);
    return cudaSuccess;
}
EMU_API cudaEventQuery(cudaEvent_t event, const char* file, int line) {
    EMU_KNOWN(handles.count(event), "cudaEventQuery");
    host_waits_for(event);
    return cudaSuccess;
}
EMU_API cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last, const char* file, int line) {
    EMU_KNOWN(handles.count(first) && handles.count(last), "cudaEventElapsedTime");
    if (!first->is_recorded || !last->is_recorded || !first->is_timed || !last->is_timed) {
        report("problem", "handle", "cudaEventElapsedTime at {0} gets an event that was never recorded, or one without "
            "timing", "", {file, line});
        return failed(cudaErrorInvalidResourceHandle);
    }
#ifdef EMU_CHECK
    for (cudaEvent_t event : {first, last})
        if (!is_waited_for(event))
            return report("problem", "not arrived", "cudaEventElapsedTime at {0} gets an event that nothing has waited "
                "for: a GPU returns cudaErrorNotReady; call cudaEventSynchronize first", "", {file, line}),
                failed(cudaErrorNotReady);
#endif
    *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
    return cudaSuccess;
}
