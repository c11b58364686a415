// Gathering of the slices of a batch for inputs.cuh, by cp.async, two steps ahead. D: the sizes, `Inputs`.
#pragma once
#include "async.cuh"
#include "epochs.cuh"

// Gathering of the block's slices of all samples, and of their labels, by the warps that do not compute.
template <class D>
struct SliceGather {
    static constexpr int CHUNKS = D::TILES * sizeof(typename D::Pixel), MANY = THREADS - D::COMPUTING;
    static constexpr int EACH = (D::BATCH * CHUNKS + MANY - 1) / MANY;  // chunks of 16 bytes of a thread
    static constexpr int LABELS = (D::BATCH + MANY - 1) / MANY;
    const unsigned char* samples;
    const int* labels;
    const int* places;  // of the batch that is requested next
    BatchSizes sizes;
    unsigned char* stages;  // (STAGES, ROWS, LINE) bytes
    int* wanted;            // (STAGES, ROWS) labels
    int ahead[EACH], ahead_label[LABELS];

    __device__ __forceinline__ SliceGather(
        const void* x, const int* y, const Choice& all, float* held, float* held_labels
    ) : samples(static_cast<const unsigned char*>(x)), labels(y), places(all.rows), sizes(all),
        stages(reinterpret_cast<unsigned char*>(held)), wanted(reinterpret_cast<int*>(held_labels)) {
        if (thread() >= 0) look_up();
    }
    static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) - D::COMPUTING; }

    // Request the next batch, that of step `number` of a launch of `total`, if there is one. Rows beyond its samples
    // keep what an earlier batch left there.
    __device__ __forceinline__ void request(int number, int total) {
        if (number < total) {
            constexpr int TILE = 16 * sizeof(typename D::Pixel);
            const int n = sizes.size(), first = TILE * D::first(), end = min(D::PITCH - first, TILE * D::count());
            const int stage = number % D::STAGES * D::ROWS;
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                const int m = (thread() + i * MANY) / CHUNKS, at = (thread() + i * MANY) % CHUNKS * 16;
                if (m < n && at < end)
                    copy_sixteen(
                        stages + (stage + m) * D::LINE + at,
                        samples + static_cast<long long>(ahead[i]) * D::PITCH + first + at, 16
                    );
            }
#pragma unroll
            for (int i = 0; i < LABELS; ++i) {
                const int m = thread() + i * MANY;
                if (m < n)
                    copy_float(
                        reinterpret_cast<float*>(wanted) + stage + m,
                        reinterpret_cast<const float*>(labels) + ahead_label[i], true
                    );
            }
            sizes.next();
            places += sizes.batch;
            if (number + 1 < total) look_up();
        }
        commit_copies();
    }

private:
    __device__ __forceinline__ void look_up() {
        const int n = sizes.size();
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int m = (thread() + i * MANY) / CHUNKS;
            ahead[i] = m < n ? places[m] : 0;
        }
#pragma unroll
        for (int i = 0; i < LABELS; ++i) ahead_label[i] = thread() + i * MANY < n ? places[thread() + i * MANY] : 0;
    }
};
