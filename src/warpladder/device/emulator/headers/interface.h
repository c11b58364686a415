// Interface between compiled kernels and the runtime; device/emulator/kernel.py has the same structures in Python.
//
// Each mode (fast, check, asan) has a separate runtime, a shared library; a .cu file becomes a shared library
// that is linked with it. EMU_CHECK and EMU_ASAN are defined for the modes of these names, in both libraries.
#pragma once
#include <cstddef>
#include <cstdint>

#include "vectors.h"

#define EMU_EXPORT extern "C" __attribute__((visibility("default")))
#define EMU_INLINE inline __attribute__((always_inline))

namespace emu {

// Block in a kernel's view. `shared` is the block's shared memory: static variables first, then the dynamic
// part.
struct BlockView {
    uint3 index;
    dim3 size, grid;
    unsigned rank, cluster;  // place in the cluster, and how many blocks the cluster has
    char* shared;
    unsigned dynamic_offset, dynamic_bytes;

    // The threads, in the order in which they begin; `calm` as long as none of them has waited for another, so that
    // each has ended before the next began.
    char* first;
    const unsigned* order;
    unsigned stride, count, begun;
    bool calm;
};

struct Stack;
enum class State : unsigned {
    ready, at_barrier, at_cluster, at_grid, at_warp, at_phase, at_products, converging, done
};

// Runs on the lanes of a collective when the last one has arrived: pointers of participating lanes, null for others.
using Combine = void (*)(void** payloads);

// A CUDA thread; the fields of every barrier fill one line of the cache.
struct alignas(64) Thread {
    uint3 index;
    unsigned linear;
    BlockView* block;

    Stack* stack;              // on which it waits,
    void* context;             // and how to go on there
    const char *waits, *file;  // name of the function in which it waits, and its place
    int line;
    State state;

    const void* polled;    // address of the last atomic read,
    uint64_t found;        // and its value: a thread that reads the same value again and again waits for another one
    const void* polls_at;  // place in the code
    unsigned polls;        // repetitions
    unsigned slept;        // of them, at the last __nanosleep()
    unsigned reads;        // of other values or addresses: a thread may wait for several in turns

    unsigned mask;  // of the collective that it waits in
    void* payload;
    Combine combine;  // null for __syncwarp
};

constexpr unsigned LARGE_SHARED = 4096;  // bytes of a __shared__ variable above which `reached` is noted

// One __shared__ variable of a module. Places are linked as the module is loaded; offsets count from the block's shared
// memory.
struct Place {
    const char *name, *function, *file;
    int line;
    unsigned bytes, element, alignment, offset;  // element: bytes of one, where the variable is an array
    Place* next;
    mutable bool reached;  // by a thread of the launch; of large ones alone
};
struct Layout {
    Place* first;
    unsigned bytes;
};

// Why an access to an address is wrong, in the words of the program that launches. code: after the call that allocated
// memory of the host, or null.
struct Explanation {
    const char* text;
    bool is_host;
    const void* code;
};

// A pointer argument's array, or a __constant__ variable, in the checker's description.
struct View {
    uint64_t low, bytes;
    const char* name;
    uint32_t element, constant;  // bytes of an element; 1 for a pointer to const
    uint32_t symbol;             // 1 for a __constant__ variable
    // sum of 1 if a thread has read it, 2 if one has written to it, 4 if by volatile or system-wide atomic accesses;
    // set by a checked launch alone
    mutable uint32_t touched;
    // of floating point numbers: 8 double, 4 float, 3 bfloat16, 2 half; 0 of others
    uint32_t floats;
    mutable uint64_t stored;  // bytes that threads of a checked launch have stored, not by atomic operations
};

// Where a thread of a checked launch launches another kernel: what it and later ones of its block access from then on,
// the other kernel may access at the same time.
struct Parent {
    const char* kernel;
    uint32_t stamp, thread, block, threads, epoch, clock;
};

struct Launch {
    void (*kernel)(void** arguments);
    void** arguments;
    const Layout* layout;
    const char* name;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t dynamic_shared, cooperative, order, seed, threads, views;
    const View* view;
    const void* code;  // any address in the module
    void* reports;     // faults, after the launch
    uint32_t watched;  // 1 or 2 if emu_stuck may be called during the launch; 1: shared memory begins as NaN and -1
    // 1 if a thread has written to global memory, 2 if one has printed; set by a checked launch alone
    mutable uint32_t effects;
    uint32_t lets_leave;  // 1 if a barrier does not wait for threads that have left the kernel, as on a GPU
    const Parent* parent; // of a launch by a kernel that is checked, or null
};

// A tensor map, passed to a kernel by value: the matrix, and the size of its tiles.
struct TileMap {
    static constexpr uint64_t MARK = 0x70616D5F756D65;  // marks a map of the emulator
    uint64_t mark, base, size, to_tf32;     // size: bytes of a number
    // 2 axes of a matrix or 4 of images, the contiguous one first; pitch: bytes from one row (image row, image) to the
    // next
    uint64_t axes, sizes[4], pitch[3], box[4];
};

// A product by a whole warp in fragments: d (m, n) += a (m, k) b (k, n). A matrix is cut into parts of 8 rows and
// 4 * word columns, those of a column of parts one after the other; of each a lane has `word` numbers: row lane / 4,
// columns from word * (lane % 4). b is cut as its transpose is; d's word is 2. step: products that tensor cores add
// at a time, lowest: least exponent of the factors' format; both are for floats.
struct Fragments {
    unsigned m, n, k, word, step;
    int lowest;
    static constexpr unsigned row(unsigned rows, unsigned word, unsigned lane, unsigned i) {
        return lane / 4 + 8 * (i / word % (rows / 8)); }
    static constexpr unsigned column(unsigned rows, unsigned word, unsigned lane, unsigned i) {
        return word * (lane % 4) + i % word + 4 * word * (i / word / (rows / 8)); }
};

// The CUDA thread that runs on this OS thread. In a checked build kernels call the runtime for it, which hides the
// access from the checker.
extern thread_local Thread* current __attribute__((tls_model("initial-exec"), visibility("default")));

}  // namespace emu

// Number by number: the compiler takes a function whose result is one number out of loops, but not one of a struct.
#define EMU_NUMBERS(type, name)                                                                                        \
    EMU_EXPORT unsigned name##_x() __attribute__((const));                                                             \
    EMU_EXPORT unsigned name##_y() __attribute__((const));                                                             \
    EMU_EXPORT unsigned name##_z() __attribute__((const));                                                             \
    EMU_INLINE type name() { return {name##_x(), name##_y(), name##_z()}; }
EMU_NUMBERS(uint3, emu_thread_index)
EMU_NUMBERS(uint3, emu_block_index)
EMU_NUMBERS(dim3, emu_block_size)
EMU_NUMBERS(dim3, emu_grid_size)
#undef EMU_NUMBERS
EMU_EXPORT unsigned emu_thread_linear() __attribute__((const));
EMU_EXPORT void* emu_shared(const emu::Place* place) __attribute__((pure));
EMU_EXPORT void* emu_dynamic_shared(const char* name, unsigned element);

EMU_EXPORT void emu_barrier(const char* name, const char* file, int line);
EMU_EXPORT int emu_barrier_count(int predicate, const char* name, const char* file, int line);
EMU_EXPORT void emu_grid_barrier(const char* file, int line);
EMU_EXPORT void emu_cluster_barrier(const char* file, int line);
EMU_EXPORT unsigned emu_cluster_rank();
EMU_EXPORT unsigned emu_cluster_size();
EMU_EXPORT unsigned emu_cluster_side(unsigned axis);  // blocks of a cluster along x, y or z
EMU_EXPORT void* emu_map_shared(const void* address, unsigned rank, const char* file, int line);
EMU_EXPORT void emu_fence(int scope);  // 0: block, 1: device, 2: system

EMU_EXPORT void emu_sync_warp(unsigned mask, const char* file, int line);
EMU_EXPORT uint64_t emu_shuffle(unsigned mask, uint64_t value, int source, const char* name, const char* file,
    int line);
EMU_EXPORT unsigned emu_ballot(unsigned mask, int predicate, const char* name, const char* file, int line);
EMU_EXPORT unsigned emu_match(unsigned mask, uint64_t value, const char* name, const char* file, int line);
EMU_EXPORT uint64_t emu_reduce(unsigned mask, uint64_t value, char operation, const char* name, const char* file,
    int line);
// Lanes of the warp that reach this line before no other thread can run.
EMU_EXPORT unsigned emu_converged(const char* file, int line);
EMU_EXPORT void emu_collective(unsigned mask, void* payload, emu::Combine combine, const char* name, const char* file,
    int line);

// One lane's share of a matrix product; d is replaced. Numbers in double are added one after the other.
EMU_EXPORT void emu_multiply(float* d, const float* a, const float* b, const emu::Fragments& how, const char* name,
    const char* file, int line);
EMU_EXPORT void emu_multiply_doubles(double* d, const double* a, const double* b, const emu::Fragments& how,
    const char* name, const char* file, int line);
// One lane's share of `count` matrices of 8 x 8 numbers of 16 bits; the lane passes the address of a row.
EMU_EXPORT void emu_load_matrices(unsigned* out, const void* row, int count, int turned, const char* file, int line);

// Copies that run while the thread continues: `size` bytes, of which the first `bytes` are read and the others 0.
EMU_EXPORT void emu_copy(void* to, const void* from, unsigned bytes, unsigned size);
EMU_EXPORT void emu_commit_copies();
EMU_EXPORT void emu_wait_for_copies(unsigned pending);

// Barriers in shared memory that count arrivals and bytes, and tiles whose bytes they count. rank: number of the block
// in the cluster, -1 for the own one. blocks: a bit for each block of the cluster that gets the tile, 0 for the own one
// alone.
EMU_EXPORT void emu_phase_init(void* barrier, unsigned count, const char* file, int line);
EMU_EXPORT void emu_phase_arrive(void* barrier, unsigned bytes, int rank, const char* file, int line);
EMU_EXPORT void emu_phase_read(void* barrier, int rank, const char* file, int line);  // releases no writes
EMU_EXPORT void emu_phase_wait(void* barrier, unsigned parity, const char* file, int line);
// Several arrivals, or announced bytes alone; returns the number of the phase. Its end is waited for by the number.
EMU_EXPORT uint32_t emu_phase_arrivals(void* barrier, unsigned count, unsigned bytes, const char* file, int line);
EMU_EXPORT uint32_t emu_phase_copies(void* barrier, const char* file, int line);  // when the thread's copies are there
EMU_EXPORT void emu_phase_drop(void* barrier, const char* file, int line);  // the last arrival of a thread
EMU_EXPORT void emu_phase_wait_for(void* barrier, uint32_t phase, const char* file, int line);
EMU_EXPORT int emu_phase_ended(void* barrier, uint32_t phase, const char* file, int line);
EMU_EXPORT uint32_t emu_phase_number(void* barrier, const char* file, int line);
EMU_EXPORT void emu_copy_tile(void* to, const void* map, unsigned axes, int column, int row, int line_of_rows,
    int image, void* barrier, unsigned blocks, const char* file, int line);
EMU_EXPORT void emu_send(void* to, const void* value, unsigned bytes, void* barrier, const char* file, int line);
EMU_EXPORT void emu_copy_piece(void* to, const void* from, unsigned bytes, void* barrier, unsigned blocks,
    const char* file, int line);
EMU_EXPORT void emu_proxy_fence();

// A warpgroup's products from shared memory. d: the thread's share of the sums, `columns` / 2 numbers; a, b:
// descriptors; turned: b's terms go down its rows (1), a's do (2).
EMU_EXPORT void emu_products(float* d, uint64_t a, uint64_t b, unsigned columns, int kind, int turned, int add,
    const char* file, int line);
EMU_EXPORT void emu_products_begin(const char* file, int line);
EMU_EXPORT void emu_products_commit(const char* file, int line);
EMU_EXPORT void emu_products_wait(unsigned pending, const char* file, int line);

// Memory of a kernel's malloc and new.
EMU_EXPORT void* emu_heap(size_t bytes);
EMU_EXPORT void emu_unheap(void* memory);

// Report of an atomic operation of `size` bytes to the checker; scope as a fence's. The raw accesses are hidden from
// it. write: 2 of a comparison, 3 of a store.
EMU_EXPORT void emu_atomic(const void* address, unsigned size, int write, int scope);
// a plain access without a call-out of the compiler
EMU_EXPORT void emu_touch(const void* address, size_t size, int write);
EMU_EXPORT uint64_t emu_load(const void* address, unsigned size);
EMU_EXPORT void emu_store(void* address, unsigned size, uint64_t bits);
// stores 16 bytes if there are the expected ones, or in any case if `expected` is null; old: what was there
EMU_EXPORT void emu_exchange_wide(void* address, const void* expected, const void* value, void* old);
EMU_EXPORT void emu_begins();  // in builds that count: the thread enters the kernel
EMU_EXPORT void emu_yield();     // let others run: the thread polls
EMU_EXPORT void emu_sleep();     // let others run: a thread that has polled since its last sleep waits for them
EMU_EXPORT void emu_give_way();  // let others run: the thread may poll
EMU_EXPORT void emu_progress();  // a condition that a thread waited for has become true

EMU_EXPORT void emu_misaligned(const void* address, unsigned alignment, const char* what, const char* file, int line)
    __attribute__((noreturn));
EMU_EXPORT void emu_unfilled(const char* what, const char* file, int line) __attribute__((noreturn));
EMU_EXPORT void emu_trap(const char* what, const char* file, int line) __attribute__((noreturn));
EMU_EXPORT void emu_no_body(const char* what, const char* file, int line) __attribute__((noreturn));
EMU_EXPORT int emu_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
EMU_EXPORT long long emu_clock();

// Functions that access arrays by reference are inlined, so that the checker sees the kernel's own line; functions that
// read the emulator's own memory are hidden from it.
#ifdef EMU_CHECK
#define EMU_UNSEEN __attribute__((no_sanitize_thread, noinline))
#else
#define EMU_UNSEEN
#endif

// File and line of the call in the kernel.
#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
