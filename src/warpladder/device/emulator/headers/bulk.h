// Tiles by the copy engine, barriers in shared memory, and a warpgroup's products, for the helpers in
// device/include/bulk.cuh and device/include/wgmma.cuh.
#pragma once
#include "matrix.h"

namespace emu {

// As the 32-bit address of shared memory on a GPU: what a descriptor holds of it.
EMU_UNSEEN inline uint64_t shared_address(const void* address) {
    return uint64_t(static_cast<const char*>(address) - current->block->shared); }

}  // namespace emu
