// Instructions of a whole warp, called by kernel threads: a step of a matrix product as tensor cores add it (mma), and
// the loading of fragments (ldmatrix).
//
// NVIDIA does not document the additions of tensor cores. Two groups have determined them by experiment, and compared
// programs with GPUs of each generation bit for bit: F. A. Khattak and M. Mikaitis, "Accurate models of NVIDIA tensor
// cores", arXiv:2512.07004, and P. Xie et al., "MMA-Sim", arXiv:2511.10909. The model of Hopper in this file is theirs,
// for factors in half, bf16 and tf32 and sums in fp32:
//   - products are exact;
//   - the 16 products (8 of tf32) and the number that they are added to are shifted to the largest exponent among them
//     (of a product: the sum of its factors' exponents), and digits below 25 binary places are cut off;
//   - they are added without error, and the sum is cut off to the 24 bits of a float.
// Ampere takes half as many products at a time and keeps 24 places. Nothing is rounded to nearest: all errors point
// towards zero, so they add.
#include "worker.h"

using namespace emu;

namespace emu {

// binary places of a shifted term, and the lowest exponent to which terms are shifted
constexpr int PLACES = 25, LEAST = -133;
constexpr int NONE = -100000;             // the exponent of 0

struct Lane {
    Thread* thread;
    const char* name;
};

// Lanes of an instruction that needs the whole warp at one place; the launch fails if one is missing.
template <class L> static void whole_warp(void** payloads, L* (&lanes)[32]) {
    unsigned here = 0;
    L* one = nullptr;
    for (int i = 0; i < 32; ++i) {
        lanes[i] = static_cast<L*>(payloads[i]);
        if (lanes[i]) here |= 1u << i, one = one ? one : lanes[i];
    }
    Thread& me = *one->thread;
    const Warp& warp = block_of(me).warps[me.linear / 32];
    auto fail = [&](const std::string& why, std::vector<Where> places) {
        std::string message = std::string(one->name) + " at {0} needs all 32 lanes of a warp: in block "
            + text(me.block->index) + " warp " +
                              std::to_string(me.linear / 32) + " " + why;
        worker_of(me).fail({"warp mask", message, "", text(me.block->index), text(me.index), std::move(places)});
    };
    if (here != ~0u) {
        bool short_block = warp.exist != ~0u;
        fail("lanes " + lanes_of(~here) + (short_block ? " are not there, the block has fewer threads"
            : " have left the kernel"), {{me.file, me.line}});
    }
    for (L* lane : lanes)
        if (lane->thread->line != me.line || (lane->thread->file != me.file && strcmp(lane->thread->file, me.file)))
            fail("lane " + std::to_string(lane->thread->linear & 31) + " calls it at {1}",
                {{me.file, me.line}, {lane->thread->file, lane->thread->line}});
}

template <class T> struct Share : Lane {
    T* d;
    const T *a, *b;
    const Fragments* how;
};

static int exponent(float x, int lowest) {
    if (x == 0) return NONE;
    return std::max(int(std::bit_cast<uint32_t>(x) >> 23 & 255) - 127, lowest);
}
static double power_of_two(int n) { return std::bit_cast<double>(uint64_t(1023 + n) << 52); }

// A finite number without the bits that a float lacks; beyond the largest float infinity.
static float cut_off(double x) {
    if (std::abs(x) >= 0x1p-126) return float(std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~0x1fffffffull));
    float nearest = float(x);  // subnormal
    return std::abs(double(nearest)) > std::abs(x) ? std::nextafter(nearest, 0.0f) : nearest;
}

// For functions that add products: machine code for processors with AVX2, and for others. The whole runtime cannot have
// it: the switch of stacks does not compile for some processors.
#ifdef __x86_64__
#define EMU_WITH_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define EMU_WITH_VECTORS
#endif

// c + the sum of DEPTH products a[k] b[k]; ea and eb are their exponents. Loops of constant length, which the compiler
// turns into vector instructions: most of the time of an emulated matrix product passes here.
template <int DEPTH> static inline __attribute__((always_inline)) float added(float c, const double* a,
    const double* b, const int* ea, const int* eb) {
    static_assert(DEPTH <= 16, "a shifted product is below 2^27, and an int holds sixteen of them");
    int top = std::max(LEAST, exponent(c, -126)), sum = 0;
    for (int k = 0; k < DEPTH; ++k) top = std::max(top, ea[k] + eb[k]);
    double scale = power_of_two(PLACES - top);
    for (int k = 0; k < DEPTH; ++k) sum += int(a[k] * b[k] * scale);
    return cut_off(double(int64_t(c * scale) + sum) * power_of_two(top - PLACES));
}
static inline __attribute__((always_inline)) float added(float c, const double* a, const double* b, const int* ea,
    const int* eb, int depth) {
    return depth == 16 ? added<16>(c, a, b, ea, eb) : added<8>(c, a, b, ea, eb);
}

struct Numbers {
    double value[32][16];
    int exponents[32][16];
    bool nonzero[32] = {};  // by row: true if it has a number that is not 0
    void put(unsigned row, unsigned k, float x, int lowest) {
        value[row][k] = x, exponents[row][k] = exponent(x, lowest);
        nonzero[row] |= x != 0;
    }
};

// Largest magnitude of a fragment of so many numbers a lane, as the bits of a float without its sign.
static inline __attribute__((always_inline)) unsigned largest(Share<float>* const (&lanes)[32], unsigned count,
    const float* Share<float>::*held) {
    unsigned most = 0;
    for (Share<float>* lane : lanes)
        for (unsigned i = 0; i < count; ++i)
            most = std::max(most, std::bit_cast<unsigned>((lane->*held)[i]) & 0x7fffffffu);
    return most;
}

EMU_WITH_VECTORS static void multiply(void** payloads) {
    Share<float>* lanes[32];
    whole_warp(payloads, lanes);
    const Fragments how = *lanes[0]->how;
    const unsigned of_a = largest(lanes, how.m * how.k / 32, &Share<float>::a),
                   of_b = largest(lanes, how.n * how.k / 32, &Share<float>::b), infinite = 0x7f800000u;
    const bool finite = std::max(of_a, of_b) < infinite;
    if (finite && std::min(of_a, of_b) == 0) {  // where a tile has no rows, or no columns: nothing is added
        for (Share<float>* lane : lanes)
            for (unsigned i = 0; i < how.m * how.n / 32; ++i) lane->d[i] += 0.0f;  // -0 becomes 0
        return;
    }
    Numbers a, b;
    // The division of i is the same for all lanes: the inner loop has none.
    auto fill = [&](Numbers& numbers, unsigned rows, const float* Share<float>::*held) {
        for (unsigned i = 0; i < rows * how.k / 32; ++i) {
            unsigned row = how.row(rows, how.word, 0, i), column = how.column(rows, how.word, 0, i);
            for (unsigned lane = 0; lane < 32; ++lane)
                numbers.put(row + lane / 4, column + how.word * (lane % 4), (lanes[lane]->*held)[i], how.lowest);
        }
    };
    fill(a, how.m, &Share<float>::a);
    fill(b, how.n, &Share<float>::b);
    for (unsigned i = 0; i < how.m * how.n / 32; ++i)
        for (unsigned lane = 0, first = how.row(how.m, 2, 0, i), next = how.column(how.m, 2, 0, i); lane < 32; ++lane) {
            unsigned row = first + lane / 4, column = next + 2 * (lane % 4);
            float& d = lanes[lane]->d[i];
            if (finite && !(a.nonzero[row] && b.nonzero[column])) {
                d += 0.0f;
                continue;
            }
            for (unsigned k = 0; k < how.k; k += how.step) {
                const double *left = &a.value[row][k], *right = &b.value[column][k];
                if (finite && std::isfinite(d)) {
                    d = added(d, left, right, &a.exponents[row][k], &b.exponents[column][k], int(how.step));
                    continue;
                }
                double sum = d;
                for (unsigned j = 0; j < how.step; ++j) sum += left[j] * right[j];
                d = std::isfinite(sum) ? cut_off(sum) : float(sum);
            }
        }
}

static void multiply_doubles(void** payloads) {
    Share<double>* lanes[32];
    whole_warp(payloads, lanes);
    const Fragments how = *lanes[0]->how;
    double factors_a[32][32], factors_b[32][32];
    for (unsigned lane = 0; lane < 32; ++lane) {
        for (unsigned i = 0; i < how.m * how.k / 32; ++i)
            factors_a[how.row(how.m, how.word, lane, i)][how.column(how.m, how.word, lane, i)] = lanes[lane]->a[i];
        for (unsigned i = 0; i < how.n * how.k / 32; ++i)
            factors_b[how.row(how.n, how.word, lane, i)][how.column(how.n, how.word, lane, i)] = lanes[lane]->b[i];
    }
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < how.m * how.n / 32; ++i) {
            const double *a = factors_a[how.row(how.m, 2, lane, i)], *b = factors_b[how.column(how.m, 2, lane, i)];
            double& d = lanes[lane]->d[i];
            for (unsigned k = 0; k < how.k; ++k) d = std::fma(a[k], b[k], d);
        }
}

struct Rows : Lane {
    unsigned* out;
    const unsigned short* row;  // eight numbers
    int count, turned;
};

static void load(void** payloads) {
    Rows* lanes[32];
    whole_warp(payloads, lanes);
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < lanes[lane]->count; ++matrix) {
            unsigned word = 0;
            for (int part = 0; part < 2; ++part) {
                int row = lane / 4, column = 2 * (lane % 4) + part;
                if (lanes[lane]->turned) std::swap(row, column);
                word |= unsigned(lanes[8 * matrix + row]->row[column]) << 16 * part;
            }
            lanes[lane]->out[matrix] = word;
        }
}

}  // namespace emu

EMU_EXPORT void emu_multiply(float* d, const float* a, const float* b, const Fragments& how, const char* name,
    const char* file, int line) {
    Share<float> mine{{&self(), name}, d, a, b, &how};
    emu_collective(~0u, &mine, multiply, name, file, line);
}
EMU_EXPORT void emu_multiply_doubles(double* d, const double* a, const double* b, const Fragments& how,
    const char* name, const char* file, int line) {
    Share<double> mine{{&self(), name}, d, a, b, &how};
    emu_collective(~0u, &mine, multiply_doubles, name, file, line);
}
EMU_EXPORT void emu_load_matrices(unsigned* out, const void* row, int count, int turned, const char* file, int line) {
    Rows mine{{&self(), "ldmatrix"}, out, static_cast<const unsigned short*>(row), count, turned};
    emu_collective(~0u, &mine, load, "ldmatrix", file, line);
}
