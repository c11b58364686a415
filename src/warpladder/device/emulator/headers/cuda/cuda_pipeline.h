// Asynchronous copies to shared memory by a thread: 4, 8 or 16 bytes each, in groups.
#pragma once
#include "../emulator.h"

namespace emu {

// True if an address is in the block's shared memory.
EMU_UNSEEN inline bool is_shared(const void* address) {
    const BlockView& block = *current->block;
    size_t bytes = size_t(block.dynamic_offset) + block.dynamic_bytes;
    return size_t(static_cast<const char*>(address) - block.shared) < bytes;
}

// A thread's share of a copy of `bytes` bytes: each thread takes the pieces of the widest copy that both sides allow.
EMU_INLINE void copy_shared(char* to, const char* from, size_t bytes, size_t rank, size_t threads) {
    size_t odd = size_t(to) | size_t(from), done = 0;
    bool far = is_shared(to) && !is_shared(from);
    size_t piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 0;
    if (far && piece) {
        for (size_t i = rank; i < bytes / piece; i += threads) {
            if (piece == 16) copy<16>(reinterpret_cast<uint4*>(to) + i, reinterpret_cast<const uint4*>(from) + i, 16);
            else if (piece == 8) copy<8>(reinterpret_cast<uint2*>(to) + i, reinterpret_cast<const uint2*>(from) + i, 8);
            else copy<4>(reinterpret_cast<unsigned*>(to) + i, reinterpret_cast<const unsigned*>(from) + i, 4);
        }
        done = bytes / piece * piece;
    }
    for (size_t i = done + rank; i < bytes; i += threads) to[i] = from[i];
}

}  // namespace emu

EMU_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zeros = 0) {
    int bytes = int(size - zeros);
    if (size == 16) emu::copy<16>(static_cast<uint4*>(to), static_cast<const uint4*>(from), bytes);
    else if (size == 8) emu::copy<8>(static_cast<uint2*>(to), static_cast<const uint2*>(from), bytes);
    else if (size == 4) emu::copy<4>(static_cast<unsigned*>(to), static_cast<const unsigned*>(from), bytes);
    else emu_trap("__pipeline_memcpy_async copies 4, 8 or 16 bytes", __builtin_FILE(), __builtin_LINE());
}
// The barrier counts this thread's arrival when its copies have come.
inline void __pipeline_arrive_on(unsigned long long* barrier, EMU_HERE) { emu_phase_copies(barrier, file, line); }
EMU_INLINE void __pipeline_commit() { emu::commit_copies(); }
EMU_INLINE void __pipeline_wait_prior(unsigned pending) { emu::wait_for_copies(pending); }

namespace nvcuda::experimental {
class pipeline {
  public:
    size_t commit() { return emu::commit_copies(), ++groups; }
    void wait() { emu::wait_for_copies(0); }
    template <unsigned N> void wait_prior() { emu::wait_for_copies(N); }

  private:
    size_t groups = 0;
};
template <class T> EMU_INLINE void memcpy_async(T& to, const T& from, pipeline&) {
    __pipeline_memcpy_async(&to, &from, sizeof(T));
}
}  // namespace nvcuda::experimental
