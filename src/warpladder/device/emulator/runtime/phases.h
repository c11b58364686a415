// Barriers in shared memory that count arrivals and bytes (mbarrier), and the tiles whose bytes are on their way to
// one.
#pragma once
#include <vector>

#include "clocks.h"
#include "../headers/interface.h"

namespace emu {

// A tile that a thread has asked for, or a piece of memory as it lies. It arrives as late as it may: when somebody
// waits for the barrier.
struct Tile {
    char* to;
    TileMap map;
    int first[4];  // of the tile's first number, by axis
    const void* code;  // where it was asked for,
    uint3 thread;      // and by whom
    const char* piece = nullptr;  // where a piece lies, which has no map,
    size_t length = 0;            // and how many bytes it has

    unsigned rows() const { return unsigned(map.box[1] * map.box[2] * map.box[3]); }
    size_t bytes() const { return piece ? length : rows() * map.box[0] * map.size; }
};

struct PhaseBarrier {
    unsigned count = 0, missing = 0;  // arrivals that end a phase, and those that have not come
    int64_t bytes = 0;                // that were announced and have not come
    uint32_t phase = 0;               // how many have ended
    std::vector<Tile> under_way;
    std::vector<unsigned> waiting;  // threads
    uint32_t engine = 0;            // as the checker counts who copies
#ifdef EMU_CHECK
    Known told, known;  // by who has arrived in this phase; in those that have ended
#endif
};

}  // namespace emu
