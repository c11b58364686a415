// Steps of a matrix product by a warpgroup (wgmma): four warps multiply tiles in shared memory.
//
// D (64 x columns) += A (64 x depth) B (depth x columns); depth is 32 bytes: 16 numbers in bf16 or half, 8 in tf32.
// Factors are passed by descriptors, and only D is in registers: warp w has rows 16 w to 16 w + 15, and with g = lane
// / 4, t = lane % 4 a lane has
//     d[4 j], d[4 j + 1] = row g, columns 8 j + 2 t and the next one;  d[4 j + 2], d[4 j + 3] = the same of row g + 8.
// Terms run along the rows of A's tile and down those of B's; in wgmma_.._down down both, in wgmma_.._along and in tf32
// along both. Steps are asynchronous, committed in groups; a wait for the group precedes any use of d. sm_90a.
#pragma once

#ifdef __CUDA_EMU__

#define WGMMA(name, columns, factors, shape, turns, turned)                                                            \
    __device__ __forceinline__ void name(float (&d)[columns / 2], unsigned long long a, unsigned long long b,          \
                                         bool add, EMU_HERE) {                                                         \
        emu_products(d, a, b, columns, int(emu::Factors::factors), turned, add, file, line);                           \
    }

__device__ inline void wgmma_begin(EMU_HERE) { emu_products_begin(file, line); }
__device__ inline void wgmma_commit(EMU_HERE) { emu_products_commit(file, line); }
template <int PENDING>
__device__ inline void wgmma_wait(EMU_HERE) {
    emu_products_wait(PENDING, file, line);
}
template <int COUNT>
__device__ inline void fewer_registers() {}
template <int COUNT>
__device__ inline void more_registers() {}
__device__ inline unsigned long long address_in_shared(const void* address) { return emu::shared_address(address); }

#elif __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned long long address_in_shared(const void* address) {
    return __cvta_generic_to_shared(address); }

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SUMS_32 SIXTEEN(0)
#define SUMS_64 SIXTEEN(0), SIXTEEN(16)
#define SUMS_128 SUMS_64, SIXTEEN(32), SIXTEEN(48)
#define SUMS_256 SUMS_128, SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
#define NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_64                                                                                                       \
    NAMES_32 ", "                                                                                                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_128                                                                                                      \
    NAMES_64 ", "                                                                                                      \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_256                                                                                                      \
    NAMES_128 ", "                                                                                                     \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                                 \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                                 \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                     \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// Names of the descriptors, and of the number that is 1 to add to D, 0 to begin it
#define A_B_32 "%16, %17"
#define A_B_64 "%32, %33"
#define A_B_128 "%64, %65"
#define A_B_256 "%128, %129"
#define MORE_32 "%18"
#define MORE_64 "%34"
#define MORE_128 "%66"
#define MORE_256 "%130"
#define WGMMA(name, columns, factors, shape, turns, turned)                                                            \
    __device__ __forceinline__ void name(float (&d)[columns / 2], unsigned long long a, unsigned long long b,          \
                                         bool add) {                                                                   \
        asm volatile("{.reg .pred more; setp.ne.b32 more, " MORE_##columns ", 0;\n"                                    \
                     "wgmma.mma_async.sync.aligned.m64n" #columns shape " {" NAMES_##columns "}, " A_B_##columns       \
                     ", more, 1, 1" turns ";}"                                                                         \
                     : SUMS_##columns : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                   \
    }

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
template <int COUNT>
__device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#endif

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900
// turns (for the device) and turned (for the emulator) select the factors whose terms run down their rows.
WGMMA(wgmma_bf16, 64, bfloat16, "k16.f32.bf16.bf16", ", 0, 1", 1)
WGMMA(wgmma_bf16, 128, bfloat16, "k16.f32.bf16.bf16", ", 0, 1", 1)
WGMMA(wgmma_bf16, 256, bfloat16, "k16.f32.bf16.bf16", ", 0, 1", 1)
WGMMA(wgmma_bf16_down, 64, bfloat16, "k16.f32.bf16.bf16", ", 1, 1", 3)
WGMMA(wgmma_bf16_down, 128, bfloat16, "k16.f32.bf16.bf16", ", 1, 1", 3)
WGMMA(wgmma_bf16_along, 32, bfloat16, "k16.f32.bf16.bf16", ", 0, 0", 0)
WGMMA(wgmma_bf16_along, 64, bfloat16, "k16.f32.bf16.bf16", ", 0, 0", 0)
WGMMA(wgmma_bf16_along, 128, bfloat16, "k16.f32.bf16.bf16", ", 0, 0", 0)
WGMMA(wgmma_half, 64, half, "k16.f32.f16.f16", ", 0, 1", 1)
WGMMA(wgmma_half, 128, half, "k16.f32.f16.f16", ", 0, 1", 1)
WGMMA(wgmma_half_down, 64, half, "k16.f32.f16.f16", ", 1, 1", 3)
WGMMA(wgmma_half_down, 128, half, "k16.f32.f16.f16", ", 1, 1", 3)
WGMMA(wgmma_half_along, 32, half, "k16.f32.f16.f16", ", 0, 0", 0)
WGMMA(wgmma_half_along, 64, half, "k16.f32.f16.f16", ", 0, 0", 0)
WGMMA(wgmma_half_along, 128, half, "k16.f32.f16.f16", ", 0, 0", 0)
WGMMA(wgmma_tf32, 64, tf32, "k8.f32.tf32.tf32", "", 0)
WGMMA(wgmma_tf32, 128, tf32, "k8.f32.tf32.tf32", "", 0)
WGMMA(wgmma_tf32, 256, tf32, "k8.f32.tf32.tf32", "", 0)
#undef WGMMA

// A descriptor's bits: 0-13 the address, 16-29 the leading and 32-45 the stride byte offset, in units of 16 bytes;
// 62-63 the swizzle, 1 of 128 bytes, 2 of 64, 0 of none: then eight rows of 16 bytes follow each other, the next eight
// are a stride later, and the next 16 bytes of the terms a leading offset.
__device__ __forceinline__ unsigned long long descriptor(const void* tile, unsigned leading, unsigned stride,
    unsigned swizzle = 1) {
    return (address_in_shared(tile) >> 4 & 0x3fff) | static_cast<unsigned long long>(leading >> 4) << 16
        | static_cast<unsigned long long>(stride >> 4) << 32 | static_cast<unsigned long long>(swizzle) << 62;
}
// Terms go along the rows of 128 bytes, or of 64 bytes.
__device__ __forceinline__ unsigned long long terms_along(const void* tile) { return descriptor(tile, 16, 1024); }
__device__ __forceinline__ unsigned long long terms_along_64(const void* tile) { return descriptor(tile, 16, 512, 2); }
// Terms go down the rows; the next 64 columns are `next` bytes later.
__device__ __forceinline__ unsigned long long terms_down(const void* tile, unsigned next) {
    return descriptor(tile, next, 1024); }

#endif
