// Asynchronous products of a warpgroup, four warps, from shared memory (wgmma).
#pragma once
#include <cstdint>
#include <vector>

namespace emu {

// One thread's part of D += A B: D (64, columns), descriptors of A and B in shared memory. kind: type of the factors, a
// number of emu::Factors.
struct Product {
    float* d;
    uint64_t a, b;
    unsigned columns;
    int kind;
    bool turned_a, turned, add;
    const char* file;
    int line;
};

// Products of one thread in the order of their begin. A wait counts groups.
struct Products {
    std::vector<Product> begun;    // unfinished products
    std::vector<unsigned> groups;  // products in each committed, unfinished group
    unsigned committed = 0;        // products of `begun` that are in groups
    unsigned ended = 0;            // finished groups
    bool fenced = false;           // true from wgmma_begin until the thread touches sums
    const char* sums = nullptr;    // sums of the thread's last product,
    unsigned bytes = 0;            // and their bytes
};

struct Warpgroup {
    unsigned arrived = 0;  // threads that wait for products
    uint32_t engine = 0;   // number of its tensor cores in the checker
};

}  // namespace emu
