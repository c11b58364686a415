// Launches: limits of the GPU, pointers among the arguments, the run on the emulator, and what its faults mean for the
// program: a GPU returns an error from then on.
#include <unistd.h>

#include <cstring>
#include <unordered_map>

#include "host.h"

namespace emu {

// Bytes of the __shared__ arrays that a kernel declares, and with `reached` of those that its functions have come to.
static size_t static_shared(const Layout* layout, const std::string& name, bool with_reached = false) {
    size_t bytes = 0;
    std::string plain = name.substr(0, name.find('<'));
    plain = plain.substr(plain.rfind(':') + 1) + "(";
    for (const emu::Place* place = layout ? layout->first : nullptr; place; place = place->next) {
        const char* found = strstr(place->function, plain.c_str());
        bool own = found && (found == place->function || !(isalnum(found[-1]) || found[-1] == '_'));
        if (own || (with_reached && place->reached)) bytes += place->bytes;
        if (with_reached) place->reached = false;
    }
    return bytes;
}

static std::string sizes(dim3 d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

// Reason why a GPU refuses a launch, and the error that it gives.
static std::string refusal(const Request& r, cudaError_t& error) {
    const Config& c = r.config;
    const cudaDeviceProp& p = properties();
    size_t threads = size_t(c.block.x) * c.block.y * c.block.z;
    error = cudaErrorInvalidConfiguration;
    if (!threads) return "an empty block launches nothing";
    if (!c.grid.x || !c.grid.y || !c.grid.z) return "an empty grid launches nothing";
    if (threads > 1024) return std::to_string(threads) + " threads a block, and a GPU takes 1024";
    if (c.block.z > 64) return "a block has at most 64 threads along z";
    if (c.grid.y > 65535 || c.grid.z > 65535 || c.grid.x > 0x7fffffff)
        return "a grid has at most 65535 blocks along y and z";
    if (c.grid.x % c.cluster.x || c.grid.y % c.cluster.y || c.grid.z % c.cluster.z)
        return "clusters of " + sizes(c.cluster) + " blocks do not divide the grid";
    if (c.cluster.x * c.cluster.y * c.cluster.z > 16) return "a cluster has at most 16 blocks";
    error = cudaErrorLaunchOutOfResources;
    if (r.bounds && threads > r.bounds)
        return std::to_string(threads) + " threads a block, and its __launch_bounds__ allow "
            + std::to_string(r.bounds);
    error = cudaErrorInvalidValue;
    size_t fixed = static_shared(r.layout, r.name), all = fixed + c.shared;
    size_t asked = allowance(r), most = asked ? std::max(asked + fixed, p.sharedMemPerBlock) : p.sharedMemPerBlock;
    if (fixed > p.sharedMemPerBlock)
        return std::to_string(fixed) + " bytes of __shared__ arrays a block, and nvcc takes "
            + std::to_string(p.sharedMemPerBlock) + "; more is extern __shared__, its size an argument of the launch";
    if (all > most)
        return std::to_string(all) + " bytes of shared memory a block, and it gets " + std::to_string(most)
            + (all > p.sharedMemPerBlockOptin ? "; " + std::string(p.name) + " has at most "
                + std::to_string(p.sharedMemPerBlockOptin)
                : "; cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) allows more");
    error = cudaErrorCooperativeLaunchTooLarge;
    if (c.cooperative) {
        int blocks = 0;
        cudaOccupancyMaxActiveBlocks(&blocks, r.kernel, int(threads), c.shared);
        size_t grid = size_t(c.grid.x) * c.grid.y * c.grid.z, fit = size_t(blocks) * p.multiProcessorCount;
        if (grid > fit)
            return std::to_string(grid) + " blocks that wait for each other, and " + p.name + " holds "
                + std::to_string(fit) + " of them at a time";
    }
    return "";
}

static const Parent* parent = nullptr;  // of the launch that begins
static bool is_child = false;  // the launch was made by a kernel

// A pointer of the host among the arguments, which a kernel cannot follow on a GPU: false, and it is reported.
static bool are_pointers_of_device(const Request& r) {
    bool all = true;
    for (unsigned i = 0; i < r.count; ++i) {
        const void* pointer = r.pointers[i];
        if (!pointer || nearest(pointer) || is_in_program(pointer)) continue;
        all = false;
        const char* why = is_child ? " at {0} is no pointer to memory of the device: a local or shared variable of the "
            "kernel that launches it is out of another kernel's reach"
            : " at {0} is a pointer of the host, which a kernel cannot follow";
        report("problem", "host pointer", "argument " + std::to_string(i + 1) + " of kernel " + r.name + why, "",
            {r.config.file, r.config.line}, r.name);
    }
    return all;
}

// The error that a GPU returns after a fault; cudaSuccess after one that it does not notice.
static cudaError_t error_of(const std::string& kind, const std::string& message) {
    static const std::map<std::string, cudaError_t> errors = {
        {"out of bounds", cudaErrorIllegalAddress}, {"host pointer", cudaErrorIllegalAddress},
        {"misaligned", cudaErrorMisalignedAddress},
        {"barrier", cudaErrorLaunchFailure}, {"warp mask", cudaErrorLaunchFailure},
        {"deadlock", cudaErrorLaunchTimeout},
        {"cluster", cudaErrorLaunchFailure}, {"division by zero", cudaErrorLaunchFailure},
        {"out of memory", cudaErrorLaunchFailure}, {"stack overflow", cudaErrorIllegalAddress}};
    if (kind == "trap") return message.starts_with("assertion") ? cudaErrorAssert : cudaErrorLaunchFailure;
    auto found = errors.find(kind);
    return found == errors.end() ? cudaSuccess : found->second;
}

// Writes after the end of an allocation, up to the next multiple of 256 bytes; farther ones end the launch.
static void overruns(const Request& r) {
    for (auto& [low, a] : host().allocations)
        if (size_t beyond = overrun(a)) {
            report("problem", "out of bounds", std::string("kernel ") + r.name + ", launched at {0}, writes up to "
                + std::to_string(beyond) + " bytes after the end of " + described(a)
                + "; --check names the line and the thread", a.name, {r.config.file, r.config.line}, r.name);
        }
}

// Arrays of functions, whose sum with the kernel's own nvcc limits too.
static void shared_of_functions(const Request& r) {
    size_t bytes = static_shared(r.layout, r.name, true), most = properties().sharedMemPerBlock;
    if (bytes <= most) return;
    report("problem", "shared memory", std::string("kernel ") + r.name + ", launched at {0}, has with its functions "
        + std::to_string(bytes) + " bytes of __shared__ arrays a block, and nvcc takes " + std::to_string(most)
        + "; more is extern __shared__, its size an argument of the launch", "", {r.config.file, r.config.line},
        r.name);
}

static void note_threads(const Request& r) {
    const Config& c = r.config;
    for (unsigned i = 0; i < r.count; ++i)
        if (Allocation* a = find(r.pointers[i])) {
            a->launch = std::string("kernel ") + r.name + " at " + place_of(c.file, c.line);
            a->threads = size_t(c.grid.x) * c.grid.y * c.grid.z * c.block.x * c.block.y * c.block.z;
        }
}

// From now on every call returns the error.
static void sticky(const Request& r, cudaError_t error) {
    if (host().sticky != cudaSuccess) return;
    host().sticky = error;
    host().unread = std::string("kernel ") + r.name + " at {0} ends in " + cudaGetErrorName(error);
    host().unread_at = {r.config.file, r.config.line};
}

static void note_faults(const Request& r, const std::string& text) {
    bool ends = false;
    int signal = 0;
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find('\x1e', at), first = text.find('\x1f', at), second = text.find('\x1f', first + 1),
            third = text.find('\x1f', second + 1);
        std::string kind = text.substr(at, first - at), message = text.substr(first + 1, second - first - 1);
        if (kind == "stopped") signal = atoi(text.substr(second + 1, third - second - 1).c_str());
        if (cudaError_t error = error_of(kind, message); error != cudaSuccess) sticky(r, error);
        ends |= kind == "no body";
        at = end + 1;
    }
    const Config& c = r.config;
    report_text("problem", c.is_library ? std::string(r.name) + '\x1b' + c.file + ':' + std::to_string(c.line) : r.name,
        text);
    if (!ends && !signal) return;
    fflush(nullptr);
    _exit(signal ? 128 + signal : 2);
}

#ifdef EMU_CHECK
// Everything that a kernel may touch. Managed and page-locked memory counts as written: the host may have filled it.
static std::vector<View> views(const Request& r) {
    std::vector<View> out;
    for (auto& [low, a] : host().allocations) {
        if (a.freed) continue;
        if (a.type != cudaMemoryTypeDevice) emu_written((void*)low, a.bytes);
        out.push_back({low, a.bytes, a.name.empty() ? "an array" : a.name.c_str(), a.element, 0, 0, 0, 0, 0});
        for (unsigned i = 0; r.has_numbers && i < r.count; ++i)
            if (r.floats[i] && uintptr_t(r.pointers[i]) - low < a.bytes) out.back().floats = r.floats[i];
    }
    return out;
}
#else
static std::vector<View> views(const Request&) { return {}; }
#endif

#ifdef EMU_COUNT
extern "C" const char* emu_counts();

// What the warps of the last launch did: a line with its sizes, and the emulator's lines.
static void note_counts(const Request& r) {
    const Config& c = r.config;
    std::string text;
    for (size_t size : {size_t(c.grid.x), size_t(c.grid.y), size_t(c.grid.z), size_t(c.block.x), size_t(c.block.y),
             size_t(c.block.z), c.shared, static_shared(r.layout, r.name), size_t(host().launches)})
        text += std::to_string(size) + " ";
    report_text("counts", r.name, text + "\n" + emu_counts());
}
#endif

StoredLaunch::StoredLaunch(const Request& r)
    : pointers(r.pointers, r.pointers + r.count), name(r.name), config(r.config), request{r.run, nullptr, r.kernel,
        nullptr, config, r.layout, nullptr, r.count, r.bounds, r.sizes, r.floats, r.has_numbers} {
    for (unsigned i = 0; i <= r.count; ++i)
        values.emplace_back((const char*)r.body[i], (const char*)r.body[i] + r.sizes[i]);
}
void StoredLaunch::run() const {
    std::vector<void*> now;
    for (auto& value : values) now.push_back((void*)value.data());
    Config here = config;
    here.stream = nullptr;
    Parent mine = this->parent;
    mine.kernel = of.c_str();
    emu::parent = of.empty() || is_last ? nullptr : &mine;
    emu_start({request.run, now.data(), request.kernel, name.c_str(), here, request.layout, pointers.data(),
        request.count, request.bounds, request.sizes, request.floats, request.has_numbers});
    emu::parent = nullptr;
}

static auto& children = *new std::vector<StoredLaunch>;  // that kernels have launched

bool has_children() { return !children.empty(); }

// A kernel's launches run when its grid has ended, which is one order that a GPU allows.
static void run_children() {
    bool before = std::exchange(is_child, true);
    while (!children.empty()) {
        std::vector<StoredLaunch> now;
        now.swap(children);
        for (bool is_last : {false, true})
            for (auto& child : now)
                if (child.is_last == is_last) child.run();
    }
    is_child = before;
}

struct KnownKernel {
    std::string name;
    Launcher launcher;
    std::vector<size_t> sizes;
};
static auto& kernels = *new std::unordered_map<const void*, KnownKernel>;

}  // namespace emu

using namespace emu;

EMU_EXPORT void emu_note_kernel(const void* kernel, const char* name, Launcher launcher, const size_t* sizes,
    unsigned count) {
    Lock lock;
    kernels[kernel] = {name, launcher, {sizes, sizes + count}};
}
EMU_EXPORT void emu_launch_address(const void* kernel, const Config& config, void** arguments) {
    auto found = kernels.find(kernel);
    if (found != kernels.end())
        return found->second.launcher(kernel, found->second.name.c_str(), config, arguments);
    report("problem", "launch", "the launch at {0} gets an address that is no kernel's", "",
        {config.file, config.line});
    failed(cudaErrorInvalidDeviceFunction);
}

EMU_EXPORT void emu_start(const Request& r) {
    Lock lock;
    const Config& c = r.config;
    if (current) {
        StoredLaunch& child = children.emplace_back(r);
        child.is_last = c.stream == cudaStreamTailLaunch;
#ifdef EMU_CHECK
        child.of = host().running;
        emu_launches(&child.parent);
#endif
        return;
    }
    if (is_in_host_function("a launch", {c.file, c.line})) return;
    if (emu_captures(c.stream)) {
        auto* launch = new StoredLaunch(r);
        emu_capture(c.stream, "kernel", [](void* launch) { static_cast<StoredLaunch*>(launch)->run(); }, launch);
        return;
    }
    if (host().sticky != cudaSuccess) return;
    if (joins_captures(std::string("kernel ") + r.name + ", launched", c.stream, {c.file, c.line})) return;
    cudaError_t error;
    std::string why = refusal(r, error);
    if (!why.empty()) {
        std::string message = std::string("kernel ") + r.name + " cannot be launched: " + why + " (grid "
            + sizes(c.grid) + ", block " + sizes(c.block) + ", " + std::to_string(c.shared) + " bytes dynamic shared "
            "memory), at {0}";
        const char* kind = error == cudaErrorInvalidValue ? "shared memory" : "launch";
        report("problem", kind, message, "", {c.file, c.line}, r.name);
        failed(error);
        host().unread = std::string("the launch of ") + r.name + " at {0} gives " + cudaGetErrorName(error);
        host().unread_at = {c.file, c.line};
        return;
    }
    if (!is_stream(c.stream)) {
        report("problem", "handle", std::string("the launch of ") + r.name + " at {0} gets a stream that was not "
            "created, or is destroyed", "", {c.file, c.line}, r.name);
        return void(failed(cudaErrorInvalidResourceHandle));
    }
    ++host().launches;
    note_threads(r);
    if (!are_pointers_of_device(r)) return sticky(r, cudaErrorIllegalAddress);
    pointers_in_arguments(r);
    static const unsigned threads = unsigned(fact("threads"));
    std::vector<View> seen = views(r);
    Launch launch{};
    launch.kernel = r.run, launch.arguments = r.body, launch.layout = r.layout, launch.name = r.name;
    launch.grid[0] = c.grid.x, launch.grid[1] = c.grid.y, launch.grid[2] = c.grid.z;
    launch.block[0] = c.block.x, launch.block[1] = c.block.y, launch.block[2] = c.block.z;
    launch.cluster[0] = c.cluster.x, launch.cluster[1] = c.cluster.y, launch.cluster[2] = c.cluster.z;
    launch.dynamic_shared = uint32_t(c.shared), launch.cooperative = c.cooperative;
    launch.threads = threads ? threads : 1, launch.views = uint32_t(seen.size()), launch.view = seen.data();
    launch.code = (const void*)r.run, launch.lets_leave = 1, launch.parent = std::exchange(parent, nullptr);
    open_memory(true);
#ifdef EMU_CHECK
    host().running = r.name, launch.watched = 2;
    watch_launch();
#endif
    is_launching = true;
    int faults = emu_launch(&launch);
    overruns(r), shared_of_functions(r);
    launch_queued(r, seen);
    if (launch.effects & 2) host().are_results_read = true, has_printed(r);
    open_memory(false);
    StreamOfGraph children_of(c.stream);
#ifdef EMU_COUNT
    note_counts(r);
#endif
    if (!faults) return launch_ended(), run_children();
    std::string text = static_cast<const char*>(launch.reports);
    emu_free_reports(&launch);
    note_faults(r, text);
    launch_ended();
    run_children();
}
