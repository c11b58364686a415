// Counts of a launch by position in the code, in builds for metrics: instructions of warps, and costs of their
// accesses.
//
// Each thread writes a list of the basic blocks that it entered and of its accesses. When a block of
// threads has ended, the lists of each warp's lanes are run together, as the hardware runs them: of all lanes those
// in the innermost function, and of these those at the lowest address in the code, advance by one step. So lanes that
// took another branch, or another number of iterations of a loop, join after it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../headers/interface.h"

namespace emu {

enum class Act : uint8_t { block, load, store, atomic, shared_load, shared_store, shared_atomic };

// Counts of one place in the code, of all warps that came there.
struct Count {
    uint64_t warps = 0;    // times that a warp came
    uint64_t lanes = 0;    // active lanes, of all times
    uint64_t sectors = 0;  // of 32 bytes, in global memory
    uint64_t bytes = 0;    // different bytes that were asked for
    uint64_t passes = 0;   // through shared memory's banks, or through one address by an atomic operation
    uint64_t least = 0;    // passes that so many bytes take without a conflict
    uint64_t most = 0;     // lanes of a warp at one address
};

class Counter {
  public:
    // Most steps of a block's threads that are held.
    static constexpr size_t MOST = size_t(1) << 27;

    void begin();  // a launch
    // address : of a basic block, that of its function's frame on the stack.
    void note(unsigned block, unsigned thread, Act act, uint32_t code, uintptr_t address, size_t size);
    void enters(unsigned block, unsigned thread, uintptr_t stack);  // the kernel, and has done nothing before
    void flush();  // the blocks that ran have ended
    bool full() const { return held_ > MOST; }
    std::string text() const;  // a line for each place: act, code, and the fields of Count

  private:
    struct Step {
        uint32_t code;
        Act act;
        uint8_t size;
        uint16_t depth;  // of the function's frame on the stack, in units of 16 bytes
        uintptr_t address;
    };
    struct Frame {
        uint32_t code;  // of the basic block in which its function is
        uint16_t depth;
    };
    struct Lane {
        std::vector<Step> steps;
        uintptr_t stack = 0;
        std::vector<Frame> frames;
    };
    static uint16_t depth_of(Lane& lane, Act act, uint32_t code, uintptr_t frame);
    void run(const std::vector<const std::vector<Step>*>& lanes);
    void access(Count& count, Act act, const std::vector<const Step*>& active);

    std::map<std::pair<unsigned, unsigned>, Lane> lanes_;  // by block and thread
    std::map<std::pair<Act, uint32_t>, Count> counts_;
    size_t held_ = 0;
    std::pair<unsigned, unsigned> last_{~0u, ~0u};
    Lane* own_ = nullptr;  // of that thread
};

#ifdef EMU_COUNT
inline Counter counter;
#endif

}  // namespace emu
