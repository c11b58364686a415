// Products of a warpgroup, four warps, from shared memory (wgmma), which run while their threads go on.
#pragma once
#include <cstdint>
#include <vector>

namespace emu {

// One thread's part of D += A B: D (64, columns), A and B in shared memory as descriptors say. kind: what the factors
// are, as emu::Factors counts.
struct Product {
    float* d;
    uint64_t a, b;
    unsigned columns;
    int kind;
    bool turned_a, turned, add;
    const char* file;
    int line;
};

// Of one thread: products in the order in which they began. A wait counts groups.
struct Products {
    std::vector<Product> begun;    // those that are not done
    std::vector<unsigned> groups;  // how many each group has that was committed and is not done
    unsigned committed = 0;        // of those in `begun`, how many are in groups
    unsigned ended = 0;            // groups that are done
    bool fenced = false;           // whether registers are ordered: from wgmma_begin until the thread touches sums
    const char* sums = nullptr;    // where the thread's sums lie that it multiplied into last,
    unsigned bytes = 0;            // and how many bytes they take
};

struct Warpgroup {
    unsigned arrived = 0;  // threads that wait for products
    uint32_t engine = 0;   // as the checker counts its tensor cores
};

}  // namespace emu
