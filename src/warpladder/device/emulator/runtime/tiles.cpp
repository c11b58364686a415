// Copy engine (TMA): copies of tiles and pieces from global to shared memory, counted by a barrier. Kernel
// threads request them; the thread that waits for the barrier executes them.
#include <optional>

#include "worker.h"

namespace emu {

// bytes of a tile's row, and of the eight rows in which its pieces are swizzled
constexpr unsigned ROW = 128, ATOM = 1024;

// Offset of a byte in shared memory after the swizzle: its piece of 16 bytes changes places by the number of its row.
static unsigned swizzled(unsigned offset) { return offset ^ (offset >> 3 & 0x70); }

// Begin of a tile's row in the matrix, in bytes from the matrix's begin; none for a row outside of the matrix.
static std::optional<int64_t> begin(const Tile& tile, unsigned row) {
    int64_t at = 0, left = row;
    for (int axis = 1; axis < 4; ++axis) {
        int64_t here = tile.first[axis] + left % int64_t(tile.map.box[axis]);
        if (here < 0 || here >= int64_t(tile.map.sizes[axis])) return {};
        at += here * int64_t(tile.map.pitch[axis - 1]), left /= int64_t(tile.map.box[axis]);
    }
    return at;
}

// First byte of a tile's row that is in the matrix, from the row's begin, and the number of such bytes.
static std::pair<unsigned, unsigned> part(const Tile& tile) {
    int64_t low = std::max<int64_t>(0, -int64_t(tile.first[0])),
        high = std::min<int64_t>(int64_t(tile.map.box[0]), int64_t(tile.map.sizes[0]) - tile.first[0]);
    if (high <= low) return {0, 0};
    return {unsigned(low * int64_t(tile.map.size)), unsigned((high - low) * int64_t(tile.map.size))};
}

static const char* source(const Tile& tile, int64_t begin) {
    return reinterpret_cast<const char*>(tile.map.base) + begin + tile.first[0] * int64_t(tile.map.size); }

static void arrive(Block& block, const Tile& tile) {
    if (tile.piece) {
        memcpy(tile.to, tile.piece, tile.length);
        return;
    }
    if (tile.is_sent) {
        memcpy(tile.to, tile.sent, tile.length);
        return;
    }
    for (unsigned row = 0; row < tile.rows(); ++row) {
        unsigned char bytes[ROW] = {};
        auto [first, count] = part(tile);
        if (auto from = begin(tile, row); from && count) memcpy(bytes + first, source(tile, *from) + first, count);
        if (tile.map.to_tf32)
            for (unsigned i = 0; i < ROW; i += 4) {
                uint32_t number;
                memcpy(&number, bytes + i, 4);
                // ties to the even one: seen on an H200
                if ((number & 0x7f800000) != 0x7f800000) number = (number + 0xfff + (number >> 13 & 1)) & 0xffffe000;
                memcpy(bytes + i, &number, 4);
            }
        unsigned offset = unsigned(tile.to - block.shared) + row * ROW;
        for (unsigned piece = 0; piece < ROW; piece += 16)
            memcpy(block.shared + swizzled(offset + piece), bytes + piece, 16);
    }
}

// Carries out all copies that a barrier waits for.
void bring(Block& block, PhaseBarrier& barrier) {
    for (const Tile& tile : barrier.under_way) {
        arrive(block, tile);
        barrier.bytes -= int64_t(tile.bytes());
#ifdef EMU_CHECK
        checker.tile_arrived(self(), tile.to, tile.bytes(), barrier.engine, barrier.phase);
#endif
    }
    barrier.under_way.clear();
    end_phase(block, barrier);
}

[[noreturn]] static void refuse_tile(Thread& me, const char* kind, const std::string& why, const char* file, int line) {
    worker_of(me).fail({kind, name_of(me) + " " + why, "", text(me.block->index), text(me.index), {{file, line}}});
}

// Begins a copy to the same place in each of these blocks of the cluster, a bit for each, counted by the barrier in the
// same place there.
static void begin_copy(Thread& me, const Tile& tile, const void* barrier, unsigned blocks, const char* file, int line) {
    Block& mine = block_of(me);
    if (!blocks) blocks = 1u << mine.rank;
    for (unsigned rank = 0; rank < 32; ++rank) {
        if (!(blocks >> rank & 1)) continue;
        if (rank >= mine.cluster)
            refuse_tile(me, "cluster", "requests a tile at {0} for block " + std::to_string(rank) + " of a cluster of "
            + std::to_string(mine.cluster), file, line);
        Block& block = *mine.group->blocks[rank];
        Tile its = tile;
        its.to = block.shared + (tile.to - mine.shared);
        const void* there = block.shared + (static_cast<const char*>(barrier) - mine.shared);
#ifdef EMU_CHECK
        checker.tile(its.to, its.bytes(), tile.code);
#endif
        PhaseBarrier& arrival = phase_of(me, block, there, file, line);
        arrival.under_way.push_back(its);
        wake_all(block, arrival);
    }
}

}  // namespace emu

EMU_EXPORT void emu_copy_tile(void* to, const void* described, unsigned axes, int column, int row, int line_of_rows,
    int image, void* barrier, unsigned blocks, const char* file, int line) {
    Thread& me = self();
    Block& mine = block_of(me);
    Tile tile{static_cast<char*>(to), {}, {column, row, line_of_rows, image}, __builtin_return_address(0), me.index};
    memcpy(&tile.map, described, sizeof tile.map);
    if (tile.map.mark != TileMap::MARK)
        refuse_tile(me, "trap", "requests a tile at {0} by a tensor map that the emulator did not make", file, line);
    if (tile.map.axes != axes)
        refuse_tile(me, "trap", "requests at {0} a tile of " + std::to_string(axes) + " axes by a tensor map that has "
            + std::to_string(tile.map.axes), file, line);
    if (!mine.memory.holds(to))
        refuse_tile(me, "out of bounds", "requests a tile at {0} to memory outside of its block's shared memory", file,
            line);
    if (unsigned(tile.to - mine.shared) % ATOM)
        refuse_tile(me, "misaligned", "requests a tile at {0} to an address that 1,024 does not divide", file, line);
    if (int64_t(column) * int64_t(tile.map.size) % 16)  // Hopper stops at it with an illegal instruction
        refuse_tile(me, "misaligned", "requests at {0} a tile from number " + std::to_string(column)
            + " of a row on, which is no multiple of 16 bytes", file, line);
#ifdef EMU_CHECK
    for (unsigned each = 0; each < tile.rows(); ++each)
        if (auto from = begin(tile, each))
            if (auto [first, count] = part(tile); count)
                checker.access(source(tile, *from) + first, count, false, 0, tile.code);
#endif
    begin_copy(me, tile, barrier, blocks, file, line);
}

EMU_EXPORT void emu_copy_piece(void* to, const void* from, unsigned bytes, void* barrier, unsigned blocks,
    const char* file, int line) {
    Thread& me = self();
    if (!block_of(me).memory.holds(to))
        refuse_tile(me, "out of bounds", "requests a piece at {0} to memory outside of its block's shared memory", file,
        line);
    if ((uintptr_t(to) | uintptr_t(from) | bytes) % 16)
        refuse_tile(me, "misaligned", "requests at {0} a piece whose addresses or bytes 16 does not divide", file,
        line);
    Tile tile{static_cast<char*>(to), {}, {}, __builtin_return_address(0), me.index, static_cast<const char*>(from),
        bytes};
#ifdef EMU_CHECK
    checker.access(from, bytes, false, 0, tile.code);
#endif
    begin_copy(me, tile, barrier, blocks, file, line);
}

// Sends 4, 8 or 16 bytes to a block of the cluster (st.async); they arrive with their number at its barrier.
EMU_EXPORT void emu_send(void* to, const void* value, unsigned bytes, void* barrier, const char* file, int line) {
    Thread& me = self();
    Block& block = holder(me, to);
    if (!block.memory.holds(to))
        refuse_tile(me, "out of bounds", "sends a number at {0} to memory outside of its cluster's shared memory", file,
            line);
    if (!block.memory.holds(barrier))
        refuse_tile(me, "phase", "sends a number at {0} to block " + text(block.index)
            + " with a barrier that is not in the same block", file, line);
    if (uintptr_t(to) % bytes) emu_misaligned(to, bytes, "number sent", file, line);
    if (!block.live)
        refuse_tile(me, "cluster", "sends a number at {0} to block " + text(block.index)
            + ", which has left the kernel", file, line);
    Tile sent{static_cast<char*>(to), {}, {}, __builtin_return_address(0), me.index};
    sent.length = bytes, sent.is_sent = true;
    memcpy(sent.sent, value, bytes);
    PhaseBarrier& arrival = phase_of(me, block, barrier, file, line);
#ifdef EMU_CHECK
    checker.send(me, arrival.sent);
    checker.tile(to, bytes, sent.code);
#endif
    arrival.under_way.push_back(sent);
    wake_all(block, arrival);
}
