// Facts of kernels: dynamic shared memory that a program asks for, launch bounds, occupancy.
#include <unordered_map>

#include "host.h"

namespace emu {

const cudaDeviceProp& properties();

static auto& allowed = *new std::unordered_map<const void*, size_t>;  // dynamic shared memory on request, by kernel
struct Declared {
    std::string name;
    int bounds;  // threads that its __launch_bounds__ allow
};
static auto& known_kernels = *new std::unordered_map<const void*, Declared>;  // by kernel

// Bytes of dynamic shared memory that a program has asked for, for a kernel; of a kernel whose address is not known,
// the most for one of its name.
static size_t allowance(const Request& r) {
    if (auto found = allowed.find(r.kernel); found != allowed.end()) return found->second;
    size_t most = 0;
    if (r.kernel) return most;
    std::string name = r.name;
    name = name.substr(0, name.find('<'));
    if (size_t scope = name.rfind("::"); scope != std::string::npos) name = name.substr(scope + 2);
    for (auto& [kernel, bytes] : allowed)
        if (auto found = known_kernels.find(kernel); found == known_kernels.end() || found->second.name == name)
            most = std::max(most, bytes);
    return most;
}

}  // namespace emu

using namespace emu;

EMU_API emu_set_attribute(const void* kernel, cudaFuncAttribute attribute, int value, const char* file, int line) {
    Lock lock;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return returned(cudaSuccess);
    if (value < 0 || size_t(value) > properties().sharedMemPerBlockOptin) {
        report("problem", "launch", "cudaFuncSetAttribute at {0} asks for " + std::to_string(value)
            + " bytes of shared memory, and " + properties().name + " has at most "
            + std::to_string(properties().sharedMemPerBlockOptin), "", {file, line});
        return failed(cudaErrorInvalidValue);
    }
    allowed[kernel] = size_t(value);
    return returned(cudaSuccess);
}
EMU_EXPORT void emu_note_declared(const void* kernel, const char* name, int bounds) {
    Lock lock;
    known_kernels[kernel] = {name, bounds};
}
EMU_EXPORT const char* emu_kernel_name(const void* kernel) {
    Lock lock;
    auto found = known_kernels.find(kernel);
    return found == known_kernels.end() ? "" : found->second.name.c_str();
}
static int most_threads(const void* kernel) {
    auto found = known_kernels.find(kernel);
    return found == known_kernels.end() || !found->second.bounds ? 1024 : std::min(1024, found->second.bounds);
}
EMU_API emu_get_attributes(cudaFuncAttributes* out, const void* kernel) {
    *out = {};
    auto found = allowed.find(kernel);
    out->maxThreadsPerBlock = most_threads(kernel), out->numRegs = 32;
    out->ptxVersion = out->binaryVersion = properties().major * 10 + properties().minor;
    out->maxDynamicSharedSizeBytes = int(found == allowed.end() ? properties().sharedMemPerBlock : found->second);
    return returned(cudaSuccess);
}
// By threads, shared memory and blocks of a multiprocessor; registers are not known here.
EMU_API cudaOccupancyMaxActiveBlocks(int* blocks, const void* kernel, int threads, size_t shared) {
    const cudaDeviceProp& p = properties();
    if (threads < 1 || threads > 1024) return *blocks = 0, failed(cudaErrorInvalidValue);
    int warps = (threads + 31) / 32, most = std::min(p.maxBlocksPerMultiProcessor,
        p.maxThreadsPerMultiProcessor / (32 * warps));
    if (threads > most_threads(kernel)) most = 0;
    if (shared) most = std::min(most, int(p.sharedMemPerMultiprocessor / (shared + p.reservedSharedMemPerBlock)));
    *blocks = most;
    return returned(cudaSuccess);
}
