// Cooperative groups: the grid, the cluster, the block, and parts of a warp, which are masks of lanes.
#pragma once
#include "../emulator.h"

namespace cooperative_groups {

namespace emulated {

enum class Kind : unsigned char { lanes, block, cluster, grid };

EMU_UNSEEN inline unsigned linear() { return emu_thread_linear(); }
inline unsigned volume(dim3 d) { return d.x * d.y * d.z; }
inline unsigned block_rank() {
    uint3 at = blockIdx;
    dim3 size = gridDim;
    return (at.z * size.y + at.y) * size.x + at.x;
}
inline unsigned below(unsigned mask) { return __builtin_popcount(mask & ((1u << emu::lane()) - 1)); }
// Lane of the member with this rank.
inline int lane_of(unsigned mask, unsigned rank) {
    while (rank--) mask &= mask - 1;
    return mask ? __builtin_ctz(mask) : 0;
}
// Bits of lanes as bits of ranks.
inline unsigned packed(unsigned mask, unsigned lanes) {
    unsigned out = 0, rank = 0;
    for (; mask; mask &= mask - 1, ++rank) out |= (lanes >> __builtin_ctz(mask) & 1) << rank;
    return out;
}

template <class T> struct Passed {
    T value;
    int source;
};
template <class T> EMU_UNSEEN void pass(void** lanes) {
    T values[32];
    for (int i = 0; i < 32; ++i) if (lanes[i]) values[i] = static_cast<Passed<T>*>(lanes[i])->value;
    for (int i = 0; i < 32; ++i)
        if (auto* to = static_cast<Passed<T>*>(lanes[i]); to
            && lanes[to->source & 31]) to->value = values[to->source & 31];
}
// Value of another lane, of any size.
template <class T> T exchange(unsigned mask, T value, int source, const char* name, const char* file, int line) {
    if constexpr (sizeof(T) <= 8) return emu::shuffle(mask, value, source, name, file, line);
    else {
        Passed<T> passed{value, source};
        emu_collective(mask, &passed, pass<T>, name, file, line);
        return passed.value;
    }
}

template <class T, class F> struct Folded {
    T value;
    const F* f;
};
// Combination of the lanes' values: of all for every lane, or of a prefix for each lane.
enum class Fold { all, inclusive, exclusive };
template <class T, class F, Fold fold> EMU_UNSEEN void combine(void** lanes) {
    T values[32];
    int members[32], count = 0;
    for (int i = 0; i < 32; ++i)
        if (lanes[i]) values[count] = static_cast<Folded<T, F>*>(lanes[i])->value, members[count++] = i;
    F f = *static_cast<Folded<T, F>*>(lanes[members[0]])->f;
    T sum = values[0];
    for (int i = 0; i < count; ++i) {
        auto* to = static_cast<Folded<T, F>*>(lanes[members[i]]);
        if (fold == Fold::exclusive) to->value = i ? sum : T{};
        if (i) sum = f(sum, values[i]);
        if (fold == Fold::inclusive) to->value = sum;
    }
    if (fold == Fold::all)
        for (int i = 0; i < count; ++i) static_cast<Folded<T, F>*>(lanes[members[i]])->value = sum;
}
template <Fold fold, class T, class F> T folded(unsigned mask, T value, const F& f, const char* name, const char* file,
    int line) {
    Folded<T, F> mine{value, &f};
    emu_collective(mask, &mine, combine<T, F, fold>, name, file, line);
    return mine.value;
}

}  // namespace emulated

class thread_group {
  public:
    thread_group() = default;
    unsigned long long size() const { return members(); }
    unsigned long long num_threads() const { return members(); }
    unsigned long long thread_rank() const {
        using namespace emulated;
        switch (kind) {
            case Kind::lanes: return below(mask);
            case Kind::block: return linear();
            case Kind::cluster: return emu_cluster_rank() * volume(blockDim) + linear();
            default: return (unsigned long long)block_rank() * volume(blockDim) + linear();
        }
    }
    bool is_valid() const { return true; }
    void sync(EMU_HERE) const {
        using namespace emulated;
        switch (kind) {
            case Kind::lanes: return emu_sync_warp(mask, file, line);
            case Kind::block: return emu_barrier("sync()", file, line);
            case Kind::cluster: return emu_cluster_barrier(file, line);
            default: return emu_grid_barrier(file, line);
        }
    }
    unsigned emu_mask() const { return mask; }
    bool emu_is_block() const { return kind == emulated::Kind::block; }

  protected:
    thread_group(emulated::Kind kind, unsigned mask = 0) : kind(kind), mask(mask) {}
    emulated::Kind kind = emulated::Kind::lanes;
    unsigned mask = 0;  // of lanes

  private:
    unsigned long long members() const {
        using namespace emulated;
        switch (kind) {
            case Kind::lanes: return unsigned(__builtin_popcount(mask));
            case Kind::block: return volume(blockDim);
            case Kind::cluster: return emu_cluster_size() * volume(blockDim);
            default: return (unsigned long long)volume(gridDim) * volume(blockDim);
        }
    }
};

class thread_block : public thread_group {
  public:
    struct arrival_token {};
    thread_block() : thread_group(emulated::Kind::block) {}
    static unsigned size() { return emulated::volume(blockDim); }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return emulated::linear(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
    static void sync(EMU_HERE) { emu_barrier("sync()", file, line); }
    // The arrival waits as well: memory is then ordered as after the wait.
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&& = {}, EMU_HERE) const { sync(file, line); }
};
template <unsigned threads = 1024> struct block_tile_memory { char bytes[8]; };
inline thread_block this_thread_block() { return {}; }
template <unsigned threads> thread_block this_thread_block(block_tile_memory<threads>&) { return {}; }

class grid_group : public thread_group {
  public:
    struct arrival_token {};
    grid_group() : thread_group(emulated::Kind::grid) {}
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static unsigned long long num_blocks() { return emulated::volume(gridDim); }
    static unsigned long long block_rank() { return emulated::block_rank(); }
    static dim3 block_index() { return blockIdx; }
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&& = {}, EMU_HERE) const { sync(file, line); }
};
inline grid_group this_grid() { return {}; }

class cluster_group : public thread_group {
  public:
    struct arrival_token {};
    cluster_group() : thread_group(emulated::Kind::cluster) {}
    static unsigned block_rank() { return emu_cluster_rank(); }
    static unsigned num_blocks() { return emu_cluster_size(); }
    static dim3 dim_blocks() { return __clusterDim(); }
    static dim3 block_index() { return __clusterRelativeBlockIdx(); }
    static void sync(EMU_HERE) { emu_cluster_barrier(file, line); }
    template <class T> static T* map_shared_rank(T* address, int rank, EMU_HERE) {
        return static_cast<T*>(emu_map_shared(address, unsigned(rank), file, line));
    }
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&& = {}, EMU_HERE) const { sync(file, line); }
};
inline cluster_group this_cluster() { return {}; }

namespace emulated {

// Members of a warp, in the order of their lanes.
class Lanes : public thread_group {
  public:
    template <class T> T shfl(T value, int rank, EMU_HERE) const {
        return exchange(mask, value, lane_of(mask, unsigned(rank) % count()), "shfl", file, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, EMU_HERE) const {
        unsigned rank = below(mask);
        return exchange(mask, value, lane_of(mask, rank < delta ? rank : rank - delta), "shfl_up", file, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, EMU_HERE) const {
        unsigned rank = below(mask);
        return exchange(mask, value, lane_of(mask, rank + delta < count() ? rank + delta : rank), "shfl_down", file,
            line);
    }
    template <class T> T shfl_xor(T value, unsigned bits, EMU_HERE) const {
        unsigned rank = below(mask), other = rank ^ bits;
        return exchange(mask, value, lane_of(mask, other < count() ? other : rank), "shfl_xor", file, line);
    }
    int any(int predicate, EMU_HERE) const { return emu_ballot(mask, predicate != 0, "any", file, line) != 0; }
    int all(int predicate, EMU_HERE) const { return emu_ballot(mask, predicate == 0, "all", file, line) == 0; }
    unsigned ballot(int predicate, EMU_HERE) const {
        return packed(mask, emu_ballot(mask, predicate != 0, "ballot", file, line)); }
    template <class T> unsigned match_any(T value, EMU_HERE) const {
        return packed(mask, emu_match(mask, emu::bits_of(value), "match_any", file, line));
    }
    template <class T> unsigned match_all(T value, int& all, EMU_HERE) const {
        unsigned same = emu_match(mask, emu::bits_of(value), "match_all", file, line);
        all = same == mask;
        return all ? packed(mask, same) : 0;
    }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }

  protected:
    explicit Lanes(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : thread_group(Kind::lanes, mask), meta_rank(meta_rank), meta_size(meta_size) {}
    unsigned count() const { return unsigned(__builtin_popcount(mask)); }
    unsigned meta_rank, meta_size;
};

}  // namespace emulated

class coalesced_group : public emulated::Lanes {
  public:
    explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : Lanes(mask, meta_rank, meta_size) {}
    unsigned size() const { return count(); }
    unsigned num_threads() const { return count(); }
    unsigned thread_rank() const { return emulated::below(mask); }
};
inline coalesced_group coalesced_threads(EMU_HERE) { return coalesced_group(emu_converged(file, line)); }

template <unsigned Size, class Parent = void> class thread_block_tile;
template <unsigned Size> class thread_block_tile<Size, void> : public emulated::Lanes {
    static_assert(Size && !(Size & (Size - 1)), "the size of a tile is a power of two");
    static constexpr unsigned FULL = Size >= 32 ? ~0u : (1u << (Size & 31)) - 1;

  public:
    thread_block_tile()
        : Lanes(FULL << (emu::lane() & ~int(Size - 1)), emulated::linear() / Size,
            (emulated::volume(blockDim) + Size - 1) / Size) {}
    explicit thread_block_tile(const emulated::Lanes& parent)
        : Lanes(FULL << (emu::lane() & ~int(Size - 1)), unsigned(parent.thread_rank()) / Size,
            unsigned(parent.size()) / Size) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return emulated::linear() & (Size - 1); }
};
// A tile that knows its parent's type is one that does not, too: functions take thread_block_tile<32>.
template <unsigned Size, class Parent> class thread_block_tile : public thread_block_tile<Size, void> {
  public:
    thread_block_tile() = default;
    explicit thread_block_tile(const emulated::Lanes& parent) : thread_block_tile<Size, void>(parent) {}
    thread_block_tile(const thread_block_tile<Size, void>& tile) : thread_block_tile<Size, void>(tile) {}
};

template <unsigned Size> thread_block_tile<Size, thread_block> tiled_partition(const thread_block&, EMU_HERE) {
    if constexpr (Size > 32) emu_no_body("a tile of more than 32 threads", file, line);
    return {};
}
template <unsigned Size, unsigned Whole, class P>
thread_block_tile<Size, thread_block_tile<Whole, P>> tiled_partition(const thread_block_tile<Whole, P>& parent) {
    return thread_block_tile<Size, thread_block_tile<Whole, P>>(static_cast<const emulated::Lanes&>(parent));
}
inline coalesced_group emu_part(const thread_group& parent, unsigned size) {
    unsigned rank = unsigned(parent.thread_rank()), first = rank / size * size, mask = 0;
    unsigned whole = parent.emu_is_block() ? ~0u : parent.emu_mask();
    if (parent.emu_is_block()) mask = (size >= 32 ? ~0u : (1u << size) - 1) << (emu::lane() / size * size);
    else for (unsigned i = first; i < first + size && i < parent.size(); ++i) mask |= 1u << emulated::lane_of(whole, i);
    return coalesced_group(mask, rank / size, (unsigned(parent.size()) + size - 1) / size);
}
inline coalesced_group tiled_partition(const thread_group& parent, unsigned size) { return emu_part(parent, size); }
template <unsigned Size> coalesced_group tiled_partition(const coalesced_group& parent) { return emu_part(parent,
    Size); }

template <class G, class T> coalesced_group labeled_partition(const G& group, T label, EMU_HERE) {
    unsigned mask = emu_match(group.emu_mask(), emu::bits_of(label), "labeled_partition", file, line);
    return coalesced_group(mask);
}
template <class G> coalesced_group binary_partition(const G& group, bool predicate, EMU_HERE) {
    unsigned yes = emu_ballot(group.emu_mask(), predicate, "binary_partition", file, line);
    return coalesced_group(group.emu_mask() & (predicate ? yes : ~yes), !predicate, 2);
}

template <class G> void sync(const G& group, EMU_HERE) { group.sync(file, line); }
template <class G> auto thread_rank(const G& group) { return group.thread_rank(); }
template <class G> auto group_size(const G& group) { return group.size(); }
template <class G, class F, class... A> void invoke_one(const G& group, F&& f, A&&... arguments) {
    if (group.thread_rank() == 0) f(arguments...);
}
template <class G, class F, class... A> auto invoke_one_broadcast(const G& group, F&& f, A&&... arguments) {
    std::remove_cvref_t<decltype(f(arguments...))> value{};
    if (group.thread_rank() == 0) value = f(arguments...);
    return group.shfl(value, 0);
}

}  // namespace cooperative_groups
