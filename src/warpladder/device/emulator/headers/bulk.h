// Tiles by the copy engine, barriers in shared memory, and a warpgroup's products, for the helpers in
// device/include/bulk.cuh and device/include/wgmma.cuh.
#pragma once
#include "matrix.h"

namespace emu {

// Address in shared memory as in a descriptor, like the 32-bit address on a GPU.
EMU_UNSEEN inline uint64_t shared_address(const void* address) {
    return uint64_t(static_cast<const char*>(address) - current->block->shared); }

}  // namespace emu
