// Functions that kernel threads call.
#include <cstdarg>
#include <cstdio>

#include "worker.h"

using namespace emu;

#define EMU_NUMBERS(name, value)                                                                                       \
    EMU_EXPORT unsigned name##_x() { return value.x; }                                                                 \
    EMU_EXPORT unsigned name##_y() { return value.y; }                                                                 \
    EMU_EXPORT unsigned name##_z() { return value.z; }
EMU_NUMBERS(emu_thread_index, current->index)
EMU_NUMBERS(emu_block_index, current->block->index)
EMU_NUMBERS(emu_block_size, current->block->size)
EMU_NUMBERS(emu_grid_size, current->block->grid)
#undef EMU_NUMBERS
EMU_EXPORT unsigned emu_thread_linear() { return current->linear; }
EMU_EXPORT void* emu_shared(const Place* place) {
    if (place->bytes > LARGE_SHARED) place->reached = true;
    return current->block->shared + place->offset;
}
EMU_EXPORT void* emu_dynamic_shared([[maybe_unused]] const char* name, [[maybe_unused]] unsigned element) {
#ifdef EMU_CHECK
    static_cast<Block*>(current->block)->memory.name_dynamic(name, element);
#endif
    return current->block->shared + current->block->dynamic_offset;
}

EMU_EXPORT void emu_barrier(const char* name, const char* file, int line) {
    worker_of(self()).barrier(self(), name, file, line, 0); }
EMU_EXPORT int emu_barrier_count(int predicate, const char* name, const char* file, int line) {
    Thread& me = self();
    worker_of(me).barrier(me, name, file, line, predicate);
    return int(block_of(me).counted);
}
EMU_EXPORT void emu_grid_barrier(const char* file, int line) { worker_of(self()).grid_barrier(self(), file, line); }
EMU_EXPORT void emu_cluster_barrier(const char* file, int line) {
    worker_of(self()).cluster_barrier(self(), file, line); }
EMU_EXPORT unsigned emu_cluster_rank() { return current->block->rank; }
EMU_EXPORT unsigned emu_cluster_size() { return current->block->cluster; }
EMU_EXPORT unsigned emu_cluster_side(unsigned axis) {
    auto& cluster = worker_of(self()).run->cluster;
    return std::max(1u, unsigned(axis == 0 ? cluster.x : axis == 1 ? cluster.y : cluster.z));
}
EMU_EXPORT void* emu_map_shared(const void* address, unsigned rank, const char* file, int line) {
    Thread& me = self();
    Block& block = block_of(me);
    if (rank >= block.cluster || !block.memory.holds(address)) {
        std::string why = rank >= block.cluster
            ? "names block " + std::to_string(rank) + " of a cluster of " + std::to_string(block.cluster)
            : "maps an address outside of shared memory";
        worker_of(me).fail({"cluster", name_of(me) + " " + why + ", at {0}", "", text(block.index), text(me.index),
            {{file, line}}});
    }
    return block.group->blocks[rank]->shared + (static_cast<const char*>(address) - block.shared);
}
EMU_EXPORT void emu_fence([[maybe_unused]] int scope) {
#ifdef EMU_CHECK
    if (current) checker.fence(self(), scope);
#endif
}

// Value of a lane and its source lane; the result replaces the value.
struct Hand {
    uint64_t value;
    int source;
    bool absent;
};

EMU_EXPORT void emu_collective(unsigned mask, void* payload, Combine combine, const char* name, const char* file,
    int line) {
    worker_of(self()).collective(self(), mask, payload, combine, name, file, line);
}
EMU_EXPORT unsigned emu_converged(const char* file, int line) {
    return worker_of(self()).converge(self(), file, line); }
EMU_EXPORT void emu_sync_warp(unsigned mask, const char* file, int line) {
    emu_collective(mask, nullptr, nullptr, "__syncwarp", file, line); }

EMU_EXPORT uint64_t emu_shuffle(unsigned mask, uint64_t value, int source, const char* name, const char* file, int line)
    {
    Hand hand{value, source, false};
    emu_collective(mask, &hand, [](void** lanes) {
        uint64_t values[32];
        for (int i = 0; i < 32; ++i) values[i] = lanes[i] ? static_cast<Hand*>(lanes[i])->value : 0;
        for (int i = 0; i < 32; ++i) {
            auto* hand = static_cast<Hand*>(lanes[i]);
            if (hand) hand->value = values[hand->source & 31], hand->absent = !lanes[hand->source & 31];
        }
    }, name, file, line);
    if (hand.absent) {
        Thread& me = self();
        char hex[16];
        snprintf(hex, sizeof hex, "0x%08x", mask);
        Block& block = block_of(me);
        unsigned bit = 1u << (source & 31);
        const Warp& warp = block.warps[me.linear / 32];
        const char* why = !(mask & bit) ? "which the mask leaves out" : !(warp.exist & bit)
            ? "which the block does not have" : "which has left the kernel";
        worker_of(me).fail({"warp mask", name_of(me) + ", lane " + std::to_string(me.linear & 31) + ", reads lane "
            + std::to_string(source & 31) + " with " + name + " at {0} and the mask " + hex + ", " + why, "",
            text(block.index), text(me.index), {{file, line}}});
    }
    return hand.value;
}

EMU_EXPORT unsigned emu_ballot(unsigned mask, int predicate, const char* name, const char* file, int line) {
    Hand hand{uint64_t(predicate), 0, false};
    emu_collective(mask, &hand, [](void** lanes) {
        uint64_t votes = 0;
        for (int i = 0; i < 32; ++i) votes |= lanes[i] && static_cast<Hand*>(lanes[i])->value ? uint64_t(1) << i : 0;
        for (int i = 0; i < 32; ++i) if (lanes[i]) static_cast<Hand*>(lanes[i])->value = votes;
    }, name, file, line);
    return unsigned(hand.value);
}

EMU_EXPORT unsigned emu_match(unsigned mask, uint64_t value, const char* name, const char* file, int line) {
    Hand hand{value, 0, false};
    emu_collective(mask, &hand, [](void** lanes) {
        uint64_t values[32];
        for (int i = 0; i < 32; ++i) values[i] = lanes[i] ? static_cast<Hand*>(lanes[i])->value : 0;
        for (int i = 0; i < 32; ++i) {
            if (!lanes[i]) continue;
            uint64_t same = 0;
            for (int j = 0; j < 32; ++j) same |= lanes[j] && values[j] == values[i] ? uint64_t(1) << j : 0;
            static_cast<Hand*>(lanes[i])->value = same;
        }
    }, name, file, line);
    return unsigned(hand.value);
}

EMU_EXPORT uint64_t emu_reduce(unsigned mask, uint64_t value, char operation, const char* name, const char* file,
    int line) {
    Hand hand{value, operation, false};
    emu_collective(mask, &hand, [](void** lanes) {
        int64_t total = 0;
        bool first = true;
        for (int i = 0; i < 32; ++i) {
            if (!lanes[i]) continue;
            auto& hand = *static_cast<Hand*>(lanes[i]);
            int64_t v = int64_t(hand.value);
            if (first) total = v;
            else switch (hand.source) {
                case '+': total += v; break;
                case '<': total = std::min(total, v); break;
                case '>': total = std::max(total, v); break;
                case '&': total &= v; break;
                case '|': total |= v; break;
                default: total ^= v;
            }
            first = false;
        }
        for (int i = 0; i < 32; ++i) if (lanes[i]) static_cast<Hand*>(lanes[i])->value = uint64_t(total);
    }, name, file, line);
    return hand.value;
}

EMU_EXPORT void emu_atomic([[maybe_unused]] const void* address, [[maybe_unused]] unsigned size,
    [[maybe_unused]] int write, [[maybe_unused]] int scope) {
#ifdef EMU_CHECK
    Thread& me = self();
    if (write == 2) checker.compares(me, address, size);
    checker.is_store = write >= 3;
    write = write == 4 ? 1 : write;
    checker.access(address, size, write, scope + 1, __builtin_return_address(0));
    poll(me, address, std::min(size, 8u), __builtin_return_address(0));
    checker.synchronise(me, address, write, scope);
#endif
}
EMU_EXPORT void emu_touch([[maybe_unused]] const void* address, [[maybe_unused]] size_t size,
    [[maybe_unused]] int write) {
#ifdef EMU_CHECK
    if (size) checker.access(address, size, write, 0, __builtin_return_address(0));
#endif
}
EMU_EXPORT uint64_t emu_load(const void* address, unsigned size) {
    uint64_t bits = 0;
    memcpy(&bits, address, size);
    return bits;
}
EMU_EXPORT void emu_store(void* address, unsigned size, uint64_t bits) { memcpy(address, &bits, size); }
// 16 bytes at once: few processors can, so that all of them take turns.
EMU_EXPORT void emu_exchange_wide(void* address, const void* expected, const void* value, void* old) {
    static auto& turns = *new std::mutex;
    std::lock_guard turn(turns);
    memcpy(old, address, 16);
    if (!expected || !memcmp(old, expected, 16)) memcpy(address, value, 16);
}
EMU_EXPORT void emu_yield() {
    self().polls_at = __builtin_return_address(0);
    worker_of(self()).yield(self());
}
EMU_EXPORT void emu_sleep() {
    Thread& me = self();
    if (me.polls != me.slept) {
        me.slept = me.polls;
        return emu_yield();
    }
    worker_of(me).progress();  // time passes
    worker_of(me).give_way(me);
}
EMU_EXPORT void emu_give_way() { worker_of(self()).give_way(self()); }
EMU_EXPORT void emu_progress() { worker_here->progress(); }

// In host code of a program it is an assertion of the C library.
EMU_EXPORT void emu_trap(const char* what, const char* file, int line) {
    if (!current) {
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
        abort();
    }
    Thread& me = self();
    worker_of(me).fail({"trap", std::string(what) + " at {0}, by " + name_of(me), "", text(me.block->index),
        text(me.index), {{file, line}}});
}
// Inline PTX, which g++ cannot translate: the kernel may be right, but it cannot be run here.
EMU_EXPORT void emu_no_body(const char* what, const char* file, int line) {
    Thread& me = self();
    worker_of(me).fail({"no body", std::string(what)
        + " at {0} has no body here; write a version for the CPU next to it, in #ifdef __CUDA_EMU__", "",
        text(me.block->index), text(me.index), {{file, line}}});
}
// As on a GPU, output of a single kernel beyond a megabyte is lost: an endless loop that prints must not fill the
// memory. Host code of a program may call it too.
EMU_EXPORT int emu_printf(const char* format, ...) {
    static std::atomic<size_t> printed{0};
    const Launch* launch = current ? &worker_here->run->launch : nullptr;
    if (launch) launch->effects |= 2;
    if (launch && !launch->lets_leave && printed > (1 << 20)) return -1;
    va_list values;
    va_start(values, format);
    int written = vprintf(format, values);
    va_end(values);
    printed += size_t(std::max(written, 0));
    return written;
}
EMU_EXPORT long long emu_clock() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
