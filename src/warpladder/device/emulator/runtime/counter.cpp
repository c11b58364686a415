// Counts of a launch (counter.h).
#ifdef EMU_COUNT
#include <algorithm>
#include <set>

#include "counter.h"

namespace emu {

void Counter::begin() {
    steps_.clear();
    own_ = nullptr;
    held_ = 0;
    counts_.clear();
}

void Counter::note(unsigned block, unsigned thread, Act act, uint32_t code, uintptr_t address, size_t size) {
    std::pair thread_now{block, thread};
    if (!own_ || last_ != thread_now) own_ = &steps_[last_ = thread_now];
    for (size_t done = 0; done < size || act == Act::block; done += 16) {
        own_->push_back({code, act, uint8_t(std::min<size_t>(size - done, 16)), address + done});
        ++held_;
        if (act == Act::block) return;
    }
}

void Counter::forget(unsigned block, unsigned thread) {
    auto found = steps_.find({block, thread});
    if (found != steps_.end()) held_ -= found->second.size(), found->second.clear();
}

void Counter::flush() {
    for (auto at = steps_.begin(); at != steps_.end();) {
        auto [block, thread] = at->first;
        std::vector<const std::vector<Step>*> lanes;
        for (; at != steps_.end() && at->first.first == block && at->first.second / 32 == thread / 32; ++at)
            lanes.push_back(&at->second);
        run(lanes);
    }
    steps_.clear();
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
            if (!first || step->code < first->code) first = step;
        }
        if (!first) return;
        active.clear();
        for (size_t i = 0; i < lanes.size(); ++i) {
            if (next[i] == lanes[i]->size()) continue;
            const Step* step = &(*lanes[i])[next[i]];
            if (step->code == first->code && step->act == first->act) active.push_back(step), ++next[i];
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
    checker.entered(__builtin_return_address(0));
}

EMU_EXPORT void emu_begins() {
    emu::Thread& me = emu::self();
    emu::counter.forget(emu::block_of(me).linear, me.linear);
}

EMU_EXPORT const char* emu_counts() {
    static std::string text;
    text = emu::counter.text();
    return text.c_str();
}
#endif
