// Barriers in shared memory that count arrivals and bytes (mbarrier), and the copies whose bytes they wait for.
#pragma once
#include <utility>
#include <vector>

#include "clocks.h"
#include "copies.h"
#include "../headers/interface.h"

namespace emu {

// A requested copy of a tile or of a contiguous piece, or a number sent to another block (st.async). It arrives at the
// latest allowed moment: when a thread waits for the barrier.
struct Tile {
    char* to;
    TileMap map;
    int first[4];  // of the tile's first number, by axis
    const void* code;  // address of the request
    uint3 thread;      // that requested it
    const char* piece = nullptr;  // source of a piece, which has no map
    size_t length = 0;            // bytes of a piece or of what was sent
    char sent[16] = {};           // what was sent
    bool is_sent = false;

    unsigned rows() const { return unsigned(map.box[1] * map.box[2] * map.box[3]); }
    size_t bytes() const { return piece || is_sent ? length : rows() * map.box[0] * map.size; }
};

struct PhaseBarrier {
    unsigned count = 0, missing = 0;  // arrivals that end a phase, and those that have not come
    int64_t bytes = 0;                // that were announced and have not come
    uint32_t phase = 0;               // how many have ended
    std::vector<Tile> under_way;
    std::vector<std::pair<unsigned, std::vector<Copy>>> copies;  // by thread, which arrives when they have
    std::vector<unsigned> waiting;  // threads
    uint32_t engine = 0;            // number of the copy engine in the checker
#ifdef EMU_CHECK
    Known released, known;  // from arrivals in this phase; from ended phases
    Known sent, passed;     // from senders in this phase; from ended phases: finished reads, no writes (clocks.h)
#endif
};

}  // namespace emu
