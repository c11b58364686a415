// Launches: kernel<<<grid, block, shared, stream>>>(arguments) is rewritten, before it is compiled, to
//     emu::start(kernel, [=](auto&... a) { kernel(a...); }, "kernel", bounds, emu::Config(grid, block, ...), arguments)
// so that the compiler converts each argument to the kernel's parameter, once, and inlines the kernel into the loop
// over the threads of a block. For a template or an overload, whose parameters follow from the call, it is
//     emu::deduced([=](auto&... a) { kernel(a...); }, "kernel", bounds, emu::Config(...), arguments)
#pragma once
#include <utility>

#include "api.h"

namespace emu {

struct Config {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    bool cooperative = false;
    const char* file;
    int line;
    dim3 cluster{};  // blocks of one
    bool is_library = false;  // file and line are those of a call of a library, whose work the launch is
    Config(dim3 g, dim3 b, size_t s = 0, cudaStream_t t = 0, EMU_HERE)
        : grid(g), block(b), shared(s), stream(t), file(file), line(line) {}
    Config of_clusters(unsigned x, unsigned y = 1, unsigned z = 1) const {
        Config out = *this;
        return out.cluster = dim3(x, y, z), out;
    }
};

// Launch of a kernel by its address, with pointers to its arguments.
using Launcher = void (*)(const void* kernel, const char* name, const Config& config, void** arguments);

// A launch as the runtime takes it. kernel: address of the kernel, or null if it was deduced; bounds: of its
// __launch_bounds__, 0 without; pointers: those among its arguments.
struct Request {
    void (*run)(void** body);
    void** body;
    const void* kernel;
    const char* name;
    const Config& config;
    const Layout* layout;
    const void* const* pointers;
    unsigned count, bounds;
    const size_t* sizes;  // bytes of what `body` points to
    const uint32_t* floats;  // `View::floats` of each argument
    bool has_numbers;        // false if an argument is NaN or infinity
};

// Runs the current CUDA thread, and those after it as long as none waits, as in the emulator's kernels.h. body:
// addresses of the call and of its arguments. The copies are on the CUDA thread's stack, where the checker wants them.
template <class Call, class... A> struct Threads {
    EMU_UNSEEN static void call(Call call, A... arguments) {
        BlockView& block = *current->block;
        char* first = block.first;
        const unsigned *order = block.order, count = block.count, stride = block.stride;
        for (unsigned next = block.begun;;) {
#ifdef EMU_COUNT
            emu_begins();
#endif
            call(arguments...);
            if (!block.calm || next == count) return;
            current = reinterpret_cast<Thread*>(first + size_t(order[next]) * stride);
            block.begun = ++next;
        }
    }
    template <size_t... I> EMU_UNSEEN static void with(void** body, std::index_sequence<I...>) {
        call(*static_cast<const Call*>(body[0]), *static_cast<const A*>(body[1 + I])...);
    }
    EMU_UNSEEN static void run(void** body) { with(body, std::index_sequence_for<A...>{}); }
};

// Argument of a kernel's parameter that is a reference: the object stays where it is, as with a pointer to it.
template <class T> struct Reference {
    T* object;
    EMU_UNSEEN operator T&() const { return *object; }
};
// Argument with a copy constructor or a destructor of its own: the host's copy reaches the kernel byte by byte, and no
// thread constructs or destroys it. A function gets such an argument by its address.
template <class T> struct Bitwise {
    alignas(T) char bytes[sizeof(T)];
    EMU_UNSEEN operator T&() { return *reinterpret_cast<T*>(bytes); }
};
template <class P> constexpr bool is_bitwise = !std::is_reference_v<P> && !(std::is_trivially_copy_constructible_v<P>
    && std::is_trivially_move_constructible_v<P> && std::is_trivially_destructible_v<P>);
template <class P> using ByAddress = std::conditional_t<is_bitwise<P>, P&, P>;

template <class P, class T> decltype(auto) passed(T& argument) {
    if constexpr (std::is_reference_v<P>) return Reference<std::remove_reference_t<P>>{&argument};
    else if constexpr (is_bitwise<P>) {
        Bitwise<std::remove_cv_t<P>> copy;
        __builtin_memcpy(copy.bytes, (const void*)&argument, sizeof copy.bytes);
        return copy;
    } else return static_cast<const std::remove_cvref_t<P>&>(argument);
}

template <class T> const void* pointer_in(const T& value) {
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) return (const void*)value;
    else return nullptr;
}
template <class T> const void* pointer_in(const Reference<T>& value) { return (const void*)value.object; }

template <class T> constexpr uint32_t floats_of() {
    using V = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (!std::is_pointer_v<T>) return 0;
    else return std::is_same_v<V, double> ? 8 : std::is_same_v<V, float> ? 4 : std::is_same_v<V, __nv_bfloat16> ? 3
        : std::is_same_v<V, __half> ? 2 : 0;
}
template <class T> bool is_number(const T& value) {
    if constexpr (std::is_floating_point_v<T>) return value - value == 0;
    else return true;
}

}  // namespace emu

EMU_EXPORT void emu_start(const emu::Request& request);
EMU_EXPORT void emu_note_kernel(const void* kernel, const char* name, emu::Launcher launcher, const size_t* sizes,
    unsigned count);
EMU_EXPORT void emu_launch_address(const void* kernel, const emu::Config& config, void** arguments);

namespace emu {

template <class Call, class... A> void started(const void* kernel, Call call, const char* name, unsigned bounds,
    const Config& config, const A&... arguments) {
    const void* pointers[sizeof...(A) + 1] = {pointer_in(arguments)...};
    void* body[] = {(void*)&call, (void*)&arguments...};
    static const size_t sizes[] = {sizeof(Call), sizeof(A)...};
    static const uint32_t floats[] = {0, floats_of<A>()...};
    emu_start({&Threads<Call, A...>::run, body, kernel, name, config, &layout, pointers, sizeof...(A), bounds, sizes,
        floats + 1, (is_number(arguments) && ...)});
}

template <class Call, class... P> void start(void (*kernel)(P...), Call call, const char* name, unsigned bounds,
    const Config& config, std::type_identity_t<P>... arguments) {
    static_assert(takes_parameters<parameter_bytes<P...>()>());
    if constexpr ((is_bitwise<P> || ...)) {
        auto by_address = reinterpret_cast<void (*)(ByAddress<P>...)>(kernel);
        started((const void*)kernel, [by_address](auto... a) { by_address(a...); }, name, bounds, config,
            passed<P>(arguments)...);
    } else started((const void*)kernel, call, name, bounds, config, passed<P>(arguments)...);
}
template <class Call, class... A> void deduced(Call call, const char* name, unsigned bounds, const Config& config,
    const A&... arguments) {
    static_assert(takes_parameters<parameter_bytes<A...>()>());
    started(nullptr, call, name, bounds, config, arguments...);
}

// Arguments of cudaLaunchKernel: pointers to each of them.
template <class... P, size_t... I> void unpacked(void (*kernel)(P...), const char* name, const Config& config,
    void** arguments, std::index_sequence<I...>) {
    start(kernel, [=](const auto&... a) { kernel(a...); }, name, 0, config,
        *static_cast<std::remove_cvref_t<P>*>(arguments[I])...);
}

// Address of a kernel in the program, which from now on can be launched by it.
template <class... P> void* address(void (*kernel)(P...), const char* name = "kernel") {
    static const size_t sizes[sizeof...(P) + 1] = {sizeof(std::remove_cvref_t<P>)...};
    emu_note_kernel((const void*)kernel, name, [](const void* kernel, const char* name, const Config& config,
        void** arguments) {
        unpacked((void (*)(P...))kernel, name, config, arguments, std::index_sequence_for<P...>{});
    }, sizes, sizeof...(P));
    return (void*)kernel;
}
inline void* address(const void* kernel, const char* = "") { return (void*)kernel; }

}  // namespace emu

EMU_EXPORT void emu_note_declared(const void* kernel, const char* name, int bounds);
EMU_EXPORT const char* emu_kernel_name(const void* kernel);
namespace emu {

template <class K> const char* known_name(K* kernel) {
    const char* name = emu_kernel_name((const void*)kernel);
    return *name ? name : "kernel";
}

// A kernel whose name and __launch_bounds__, or 0, the runtime knows from now on.
template <class K> K* declared(K* kernel, const char* name, int bounds) {
    return emu_note_declared((const void*)kernel, name, bounds), kernel; }

}  // namespace emu

EMU_API emu_set_attribute(const void* kernel, cudaFuncAttribute attribute, int value, EMU_HERE);
EMU_API emu_get_attributes(cudaFuncAttributes* out, const void* kernel);

template <class K> cudaError_t cudaLaunchKernel(K* kernel, dim3 grid, dim3 block, void** arguments,
    size_t shared = 0, cudaStream_t stream = 0, EMU_HERE) {
    emu::Config config(grid, block, shared, stream, file, line);
    emu_launch_address(emu::address(kernel, emu::known_name(kernel)), config, arguments);
    return cudaPeekAtLastError();
}
template <class K> cudaError_t cudaLaunchCooperativeKernel(K* kernel, dim3 grid, dim3 block,
    void** arguments, size_t shared = 0, cudaStream_t stream = 0, EMU_HERE) {
    emu::Config config(grid, block, shared, stream, file, line);
    config.cooperative = true;
    emu_launch_address(emu::address(kernel, emu::known_name(kernel)), config, arguments);
    return cudaPeekAtLastError();
}
template <class K> cudaError_t cudaFuncSetAttribute(K* kernel, cudaFuncAttribute attribute, int value, EMU_HERE) {
    return emu_set_attribute((const void*)kernel, attribute, value, file, line);
}
template <class K> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, K* kernel) {
    return emu_get_attributes(out, (const void*)kernel);
}
// The kernel's name as the program has it; a GPU's is mangled.
template <class K> cudaError_t cudaFuncGetName(const char** name, K* kernel) {
    return *name = emu_kernel_name((const void*)kernel), cudaSuccess;
}
template <class K> cudaError_t cudaFuncSetCacheConfig(K*, cudaFuncCache) { return cudaSuccess; }
template <class K> cudaError_t cudaFuncSetSharedMemConfig(K*, cudaSharedMemConfig) { return cudaSuccess; }
template <class K> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, K* kernel, int threads,
    size_t shared) {
    return cudaOccupancyMaxActiveBlocks(blocks, (const void*)kernel, threads, shared);
}
template <class K> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, K* kernel,
    int threads, size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocks(blocks, (const void*)kernel, threads, shared);
}
// Bytes of dynamic shared memory that each of some blocks on a multiprocessor may have.
template <class K> cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, K*, int blocks, int) {
    int whole = 0, most = 0, reserved = 0;
    cudaDeviceGetAttribute(&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0);
    return *bytes = size_t(std::min(most, whole / std::max(blocks, 1) - reserved)), cudaSuccess;
}
// The largest of the blocks that keep most threads on a multiprocessor.
template <class K, class F> cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, K* kernel,
    F shared, int limit = 0) {
    int best = 0, processors = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    for (int threads = limit && limit < 1024 ? limit : 1024; threads >= 32; threads -= 32) {
        int blocks = 0;
        cudaOccupancyMaxActiveBlocks(&blocks, (const void*)kernel, threads, shared(threads));
        if (blocks * threads > best) best = blocks * threads, *block = threads, *grid = blocks * processors;
    }
    return cudaSuccess;
}
template <class K, class F> cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int* grid, int* block,
    K* kernel, F shared, int limit = 0, unsigned = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, shared, limit);
}
template <class K> cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, K* kernel, size_t shared = 0,
    int limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, [=](int) { return shared; }, limit);
}
template <class K> cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, K* kernel,
    size_t shared = 0, int limit = 0, unsigned = 0) {
    return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, shared, limit);
}
