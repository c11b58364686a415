// Weight gradient of a Linear layer and the optimizer's step, tile by tile, as the phases of phases.cuh.
#pragma once
#include "phases.cuh"
#include "stepper.cuh"

// Updates of a tile's biases, whose gradients are the sums of g's columns o0 to o0 + ROWS - 1.
template <class T, int IN, int OUT, class Rule>
__device__ __forceinline__ void bias_gradient(const float* g, const Stepper<Rule>& stepper, int o0, int n) {
    constexpr int PARTS = THREADS / T::ROWS;
    const int row = threadIdx.x % T::ROWS, part = threadIdx.x / T::ROWS, o = o0 + row;
    float sum = 0.0f;
#pragma unroll 8
    for (int m = part; m < n; m += PARTS) sum += o < OUT ? g[m * line(OUT) + o] : 0.0f;
    float* const sums = tile_memory();
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (part == 0 && o < OUT) {
        for (int other = 1; other < PARTS; ++other) sum += sums[other * T::ROWS + row];
        stepper.step(o * line(IN) + IN, sum);
    }
    end_of_tile();
}

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900  // the copy engine

// Request a block's first factor of `weight_gradient`: columns of x.
template <class T, int IN, int OUT, bool SEPARATE>
__device__ __forceinline__ void request_weight_gradient(Blocks team, int n, Maps maps) {
    const FirstTile tile(team, OUT, SEPARATE ? IN : IN + 1, T::ROWS, T::COLUMNS);
    const int across = pieces(SEPARATE ? IN : IN + 1, T::COLUMNS);
    const TileStream stream = {team.block, team.blocks, pieces(OUT, T::ROWS) * across, across, 0};
    if (tile.exists) request_product<RIGHT, Transposed<OUT>, Transposed<IN>>(T(), maps, tile.m0, tile.n0, n, stream);
}

#endif

// dw = g^T x, with db, the sums of g's columns, as its last column; each parameter is updated as soon as its gradient
// is complete. SEPARATE: true if tiles have no such column, and the tiles of the first inputs update the biases.
// ahead: factor of the block's first tile that was requested before the call.
template <class T, int IN, int OUT, bool SEPARATE, class Rule>
__device__ __noinline__ int weight_gradient(
    Blocks team, const float* g, const float* x, Stepper<Rule> stepper, int n, Maps maps, Ahead ahead
) {
    static_assert(!SEPARATE || T::ROWS <= THREADS, "a thread for each row");
    constexpr bool ROW_SUMS = T::WIDE > 1;  // tensor cores' fragments are added up on their way, for one function
    const int across = pieces(SEPARATE ? IN : IN + 1, T::COLUMNS), tiles = pieces(OUT, T::ROWS) * across;
    int number = 0;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int o0 = tile / across * T::ROWS, i0 = tile % across * T::COLUMNS;
        typename T::template Early<Transposed<OUT>, Transposed<IN>, 3> early;
        // place of number i of the tile in the parameters; -1 if it has none
        const auto place = [&](int i) {
            const int o = o0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
            return o < OUT && e <= IN ? o * line(IN) + e : -1;
        };
        each_number<T>([&](int k, int i) {
            const int at = place(i);
            const float* const arrays[3] = {stepper.params, stepper.first, stepper.second};
#pragma unroll
            for (int array = 0; array < 3; ++array) {
                const bool wanted = at >= 0 && arrays[array] != nullptr;
                early.request(array, k, i, wanted ? arrays[array] + at : stepper.params, wanted);
            }
        });
        const Sums<T> sums = multiply<ROW_SUMS>(
            T(), Transposed<OUT>{g, n}, Transposed<IN>{x, n}, maps, o0, i0, n, tile == team.block ? ahead : NOTHING,
            {tile, team.blocks, tiles, across, number++}
        );
        early.arrive();
        each_number<T>([&](int k, int i) {
            const int at = place(i);
            if (at < 0) return;
            float sum[T::WIDE];
            typename Stepper<Rule>::template Held<T::WIDE> held;
            sums.read(sum, i);
            early.read(held.w, 0, k, i), early.read(held.a, 1, k, i), early.read(held.b, 2, k, i);
#pragma unroll
            for (int j = 1; j < T::WIDE; ++j)
                if (i0 + i % T::COLUMNS + j > IN) sum[j] = 0.0f;  // padding of the row
            stepper.step(at, held, sum);
        });
        if constexpr (SEPARATE && ROW_SUMS)
            if (i0 == 0 && threadIdx.x < T::ROWS && o0 + threadIdx.x < OUT)
                stepper.step((o0 + threadIdx.x) * line(IN) + IN, sums.row_sum(threadIdx.x));
        end_of_tile();
        if constexpr (SEPARATE && !ROW_SUMS)
            if (i0 == 0) bias_gradient<T, IN, OUT>(g, stepper, o0, n);
    }
    return tiles;
}
