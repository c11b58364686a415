// Shadow memory of the checker: for every few bytes the last write and two reads.
#pragma once
#ifdef EMU_CHECK
#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "../headers/interface.h"

namespace emu {

// Memory that costs nothing until it is touched, and is zero then.
class Lazy {
  public:
    explicit Lazy(size_t bytes) : bytes_(bytes ? bytes : 1) {
        at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    Lazy(const Lazy&) = delete;
    ~Lazy() { munmap(at_, bytes_); }
    void* at() const { return at_; }

  private:
    size_t bytes_;
    void* at_;
};

struct __attribute__((packed)) Access {
    uint32_t thread;        // in the grid, from 1; 0 for none
    uint32_t epoch, clock;  // time, by the block's barriers and by the thread's own clock
    uint32_t code;          // address in the module
    uint8_t bytes;          // a bit for each of the cell's
    uint8_t atomic;         // 0: plain, 1 to 3: an atomic operation of that scope and one, 4: volatile, and those below
};
constexpr int UNDER_WAY = 5;  // a copy, until its thread has waited for it: no thread may read or write there
constexpr int TILE = 6;       // a tile, until it has arrived: as above
// by the copy engine or the tensor cores, which are no threads of the block: `thread` is the number of one from ENGINES
// on
constexpr int ENGINE = 7;
constexpr uint32_t ENGINES = 0x80000000u;

struct alignas(64) Cell {  // a line of the cache
    uint32_t stamp;  // number of the block, or the launch, that the content is of
    uint8_t written;
    uint8_t use;  // of the value, in shared memory (values.cpp)
    Access write, read[2];
};

// Cells of `grain` bytes for a range of memory.
class Cells {
  public:
    // A cell for every `grain` bytes: 1, 2 or 4; 1 for any other number.
    Cells(uintptr_t low, size_t bytes, unsigned grain)
        : shift_(grain == 4 ? 2 : grain == 2), first_(low >> shift_), count_((bytes >> shift_) + 2),
            memory_(count_ * (sizeof(Cell) + sizeof(uint64_t))),
            cells_(static_cast<Cell*>(memory_.at())), settled_(reinterpret_cast<uint64_t*>(cells_ + count_)) {}
    unsigned grain() const { return 1u << shift_; }
    Cell& operator[](uintptr_t address) const { return cells_[(address >> shift_) - first_]; }
    // Moment in which further reads change nothing (quick.cpp); apart from the cells, which are too long to stay in the
    // fastest cache.
    uint64_t& settled(uintptr_t address) const { return settled_[(address >> shift_) - first_]; }
    uintptr_t settled_origin() const { return uintptr_t(settled_) - first_ * sizeof(uint64_t); }
    // Address that the cell of address 0 would have.
    uintptr_t origin() const { return uintptr_t(cells_) - first_ * sizeof(Cell); }

  private:
    unsigned shift_;
    uintptr_t first_;
    size_t count_;
    Lazy memory_;
    Cell* cells_;
    uint64_t* settled_;
};

// An array: a kernel's argument, a __shared__ variable, or the module's own data.
struct Region {
    uintptr_t low = 0, high = 0;
    const char* name = "";
    unsigned element = 1;
    bool shared = false, constant = false, module = false, symbol = false;
    const View* view = nullptr;  // of arrays that a launch names
    std::shared_ptr<Cells> cells;
    unsigned char* written = nullptr;  // a byte for each byte of global memory, counted from written_low
    uintptr_t written_low = 0;
};

// An array where an access was a short time ago.
struct Near {
    uintptr_t low = 0, bytes = 0;
    uintptr_t cells = 0, settled = 0;  // addresses that those of address 0 would have
    unsigned grain = 0;
    Region* region = nullptr;
    bool holds(uintptr_t address) const { return address - low < bytes; }
};

}  // namespace emu
#endif
