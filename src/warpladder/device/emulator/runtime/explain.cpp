// Messages on threads that wait for ever, made in the thread that detected it.
#include <map>

#include "worker.h"

namespace emu {

std::string name_of(const Thread& thread) {
    return "block " + text(thread.block->index) + " thread " + text(thread.index); }

// 0-3, 8, 31
std::string lanes_of(unsigned mask) {
    std::string out;
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        int last = lane;
        while (last < 31 && mask >> (last + 1) & 1) ++last;
        out += (out.empty() ? "" : ", ") + std::to_string(lane) + (last > lane ? "-" + std::to_string(last) : "");
        lane = last;
    }
    return out;
}

static bool same_place(const Thread& a, const Thread& b) {
    return a.state == b.state && (a.state == State::done || a.state == State::ready
        || (a.line == b.line && !strcmp(a.file, b.file) && !strcmp(a.waits, b.waits) &&
                                     (a.state != State::at_phase || a.payload == b.payload)));
}

// A thread's reason to wait, with its place in the source, which is added to `places`.
static std::string doing(Worker& worker, const Thread& thread, bool one, std::vector<Where>& places) {
    if (thread.state == State::done) return "left the kernel";
    std::string s = one ? "s" : "", here = " {" + std::to_string(places.size()) + "}";
    if (thread.state != State::ready) {
        places.push_back({thread.file, thread.line});
        std::string lacking = thread.state == State::at_phase
            ? lacks(block_of(const_cast<Thread&>(thread)), thread.payload) : "";
        return "wait" + s + " at " + thread.waits + here + lacking;
    }
    std::string what = "memory";
    const Launch& launch = worker.run->launch;
    for (unsigned i = 0; i < launch.views; ++i)
        if (uintptr_t(thread.polled) - launch.view[i].low < launch.view[i].bytes)
            what = "array " + std::string(launch.view[i].name);
    if (!thread.polls_at) return "poll" + s + " " + what;
    places.push_back({nullptr, 0, thread.polls_at});
    return "poll" + s + " " + what + ", which no thread changes, at" + here;
}

// A block's threads, grouped by state and place: "192 threads, the first of them (0, 0, 0), wait at __syncthreads()
// {0}; ..."
static std::string census(Block& block, std::vector<Where>& places) {
    std::vector<std::pair<const Thread*, unsigned>> groups;
    for (auto& thread : block.threads) {
        auto found = std::find_if(groups.begin(), groups.end(), [&](auto& group) {
            return same_place(*group.first, thread); });
        if (found == groups.end()) groups.push_back({&thread, 1});
        else ++found->second;
    }
    std::stable_sort(groups.begin(), groups.end(), [](auto& a, auto& b) {
        return (a.first->state == State::done) < (b.first->state == State::done); });
    std::string out;
    for (auto& [thread, count] : groups) {
        out += (out.empty() ? "" : "; ");
        out += count == 1 ? "thread " + text(thread->index) + " "
            : std::to_string(count) + " threads, the first of them " + text(thread->index) + ", ";
        out += doing(*block.worker, *thread, count == 1, places);
    }
    return out;
}

Report divergence(Block& block, const char* why) {
    Report report{"barrier", "", "", text(block.index), "", {}};
    report.message = std::string(why) + ": in block " + text(block.index) + " " + census(block, report.places);
    return report;
}

// Report on a collective of the block that waits for lanes which are elsewhere; false if there is none.
static bool missing_lanes(Block& block, Report& report) {
    for (auto& thread : block.threads) {
        if (thread.state != State::at_warp) continue;
        Warp& warp = block.warps[thread.linear / 32];
        unsigned first = thread.linear & ~31u, need = thread.mask & warp.exist & ~warp.done, missing = 0, differing = 0;
        for (unsigned left = need; left; left &= left - 1) {
            unsigned lane = unsigned(__builtin_ctz(left));
            Thread& other = block.threads[first + lane];
            if (other.state != State::at_warp) missing |= 1u << lane;
            else if (other.mask != thread.mask || strcmp(other.waits, thread.waits)) differing |= 1u << lane;
        }
        if (!missing && !differing) continue;
        Thread& other = block.threads[first + unsigned(__builtin_ctz(missing ? missing : differing))];
        char mask[16], others[16];
        snprintf(mask, sizeof mask, "0x%08x", thread.mask);
        snprintf(others, sizeof others, "0x%08x", other.mask);
        report.kind = "warp mask";
        report.block = text(block.index), report.thread = text(thread.index);
        report.places = {{thread.file, thread.line}};
        report.message = std::string(thread.waits) + " at {0} has the mask " + mask + " and waits for ever: in block "
            + text(block.index) + " warp " + std::to_string(thread.linear / 32);
        if (missing)
            report.message += " lanes " + lanes_of(missing) + " do not come, they "
            + doing(*block.worker, other, false, report.places);
        else report.message += " lanes " + lanes_of(differing) + " call " + other.waits + " with the mask " + others
            + " at {1}";
        if (differing && !missing) report.places.push_back({other.file, other.line});
        return true;
    }
    return false;
}

Report deadlock(Worker& worker) {
    Report report{"deadlock", "", "", "", "", {}};
    Block* waiting = nullptr;
    for (size_t i = 0; i < worker.resident; ++i) {
        Block& block = *worker.blocks[i];
        if (block.live && missing_lanes(block, report)) return report;
        if (block.live && !waiting) waiting = &block;
    }
    if (!waiting) return report;
    bool polls = false;
    for (auto& thread : waiting->threads) polls |= thread.state == State::ready;
    report.block = text(waiting->index);
    report.kind = polls ? "deadlock" : "barrier";
    for (auto& thread : waiting->threads)
        if (!polls && (thread.state == State::at_phase || thread.state == State::at_products)) {
            report.kind = thread.state == State::at_phase ? "phase" : "warpgroup";
            report.thread = text(thread.index);
            break;
        }
    report.message = "nothing can go on: in block " + report.block + " " + census(*waiting, report.places);
    if (polls && worker.run->units > 1 && !worker.run->launch.cooperative)
        report.message += "; blocks that wait for others must not rely on the order in which blocks run";
    return report;
}

}  // namespace emu
