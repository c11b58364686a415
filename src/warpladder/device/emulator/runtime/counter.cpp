// Counts of a launch (counter.h).
#ifdef EMU_COUNT
#include <algorithm>
#include <set>

#include "counter.h"

namespace emu {

void Counter::begin() {
    lanes_.clear();
    own_ = nullptr;
    held_ = 0;
    counts_.clear();
}

void Counter::note(unsigned block, unsigned thread, Act act, uint32_t code, uintptr_t address, size_t size) {
    std::pair thread_now{block, thread};
    if (!own_ || last_ != thread_now) own_ = &lanes_[last_ = thread_now];
    const uint16_t depth = depth_of(*own_, act, code, address);
    for (size_t done = 0; done < size || act == Act::block; done += 16) {
        own_->steps.push_back({code, act, uint8_t(std::min<size_t>(size - done, 16)), depth, address + done});
        ++held_;
        if (act == Act::block) return;
    }
}

// A basic block ends the functions that its own was calling. An access is in the function whose last block begins
// closest before it.
uint16_t Counter::depth_of(Lane& lane, Act act, uint32_t code, uintptr_t frame) {
    auto& frames = lane.frames;
    if (act == Act::block) {
        const uint16_t depth = uint16_t((lane.stack - frame) / 16);
        while (!frames.empty() && frames.back().depth > depth) frames.pop_back();
        if (frames.empty() || frames.back().depth < depth) frames.push_back({});
        frames.back() = {code, depth};
        return depth;
    }
    const Frame* own = nullptr;
    for (const Frame& each : frames)
        if (each.code <= code && (!own || each.code > own->code)) own = &each;
    return own ? own->depth : 0;
}

void Counter::enters(unsigned block, unsigned thread, uintptr_t stack) {
    Lane& lane = lanes_[{block, thread}];
    held_ -= lane.steps.size();
    lane.steps.clear(), lane.frames.clear();
    lane.stack = stack;
}

void Counter::flush() {
    for (auto at = lanes_.begin(); at != lanes_.end();) {
        auto [block, thread] = at->first;
        std::vector<const std::vector<Step>*> lanes;
        for (; at != lanes_.end() && at->first.first == block && at->first.second / 32 == thread / 32; ++at)
            lanes.push_back(&at->second.steps);
        run(lanes);
    }
    lanes_.clear();
    own_ = nullptr;
    held_ = 0;
}

void Counter::run(const std::vector<const std::vector<Step>*>& lanes) {
    std::vector<size_t> next(lanes.size(), 0);
    std::vector<const Step*> active;
    for (;;) {
        const Step* first = nullptr;
        for (size_t i = 0; i < lanes.size(); ++i) {
            if (next[i] == lanes[i]->size()) continue;
            const Step* step = &(*lanes[i])[next[i]];
            if (!first || step->depth > first->depth || (step->depth == first->depth && step->code < first->code))
                first = step;
        }
        if (!first) return;
        active.clear();
        for (size_t i = 0; i < lanes.size(); ++i) {
            if (next[i] == lanes[i]->size()) continue;
            const Step* step = &(*lanes[i])[next[i]];
            bool is_same = step->code == first->code && step->act == first->act && step->depth == first->depth;
            if (is_same) active.push_back(step), ++next[i];
        }
        Count& count = counts_[{first->act, first->code}];
        ++count.warps;
        count.lanes += active.size();
        if (first->act != Act::block) access(count, first->act, active);
    }
}

void Counter::access(Count& count, Act act, const std::vector<const Step*>& active) {
    std::set<uintptr_t> bytes, sectors;
    std::map<uintptr_t, uint64_t> at;
    for (const Step* step : active) {
        for (unsigned i = 0; i < step->size; ++i) bytes.insert(step->address + i);
        ++at[step->address];
    }
    count.bytes += bytes.size();
    uint64_t most = 0;
    for (auto& [address, lanes] : at) most = std::max(most, lanes);
    count.most = std::max(count.most, most);
    if (act == Act::load || act == Act::store || act == Act::atomic) {
        if (act == Act::atomic) {  // lanes at one address go one after another, each with its sector
            for (uint64_t pass = 0; pass < most; ++pass, sectors.clear()) {
                for (auto& [address, lanes] : at)
                    if (lanes > pass) sectors.insert(address / 32);
                count.sectors += sectors.size();
            }
            count.passes += most;
        } else {
            for (uintptr_t byte : bytes) sectors.insert(byte / 32);
            count.sectors += sectors.size();
            ++count.passes;
        }
        ++count.least;
        return;
    }
    if (act == Act::shared_atomic) {
        count.passes += most;
        ++count.least;
        return;
    }
    // Words of 4 bytes in 32 banks; of wider accesses half or a quarter of a warp goes at a time.
    size_t group = active.front()->size > 8 ? 8 : active.front()->size > 4 ? 16 : 32;
    for (size_t from = 0; from < active.size(); from += group) {
        std::map<unsigned, std::set<uintptr_t>> banks;
        for (size_t i = from; i < std::min(from + group, active.size()); ++i)
            for (unsigned word = 0; word < std::max(1u, active[i]->size / 4u); ++word)
                banks[(active[i]->address / 4 + word) % 32].insert(active[i]->address / 4 + word);
        size_t passes = 1;
        for (auto& [bank, words] : banks) passes = std::max(passes, words.size());
        count.passes += passes;
        ++count.least;
    }
}

std::string Counter::text() const {
    std::string out;
    for (auto& [place, count] : counts_) {
        for (uint64_t field : {uint64_t(place.first), uint64_t(place.second), count.warps, count.lanes, count.sectors,
                 count.bytes, count.passes, count.least, count.most})
            out += std::to_string(field) + " ";
        out += "\n";
    }
    return out;
}

}  // namespace emu

// Called at the beginning of each basic block.
EMU_EXPORT void __sanitizer_cov_trace_pc() {
    using namespace emu;
    if (!current || !checker.running()) return;
    checker.entered(__builtin_return_address(0), uintptr_t(__builtin_frame_address(0)));
}

EMU_EXPORT void emu_begins() {
    emu::Thread& me = emu::self();
    emu::counter.enters(emu::block_of(me).linear, me.linear, uintptr_t(__builtin_frame_address(0)));
}

EMU_EXPORT const char* emu_counts() {
    static std::string text;
    text = emu::counter.text();
    return text.c_str();
}
#endif
