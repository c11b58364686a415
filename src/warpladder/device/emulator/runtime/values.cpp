// Remarks on values, which no single access shows: stores of one value by several threads, shared elements that no
// thread reads, and NaN that no input brought.
#ifdef EMU_CHECK
#include <cmath>

#include "worker.h"

namespace emu {

static constexpr uint8_t READ = 1;     // since it was written last
static constexpr uint8_t FOREIGN = 2;  // ever, by another thread than the one that had written it
static constexpr uint8_t LOST = 4;     // in a block that has ended: it holds a value that no thread has read
//: Most cells that are looked at when blocks end.
static constexpr size_t MOST_CELLS = size_t(1) << 24;

inline void Checker::reads(Cell& cell, bool is_foreign) { cell.use |= READ | (is_foreign ? FOREIGN : 0); }
void Checker::used(Cell& cell, const Access& now, bool write) {
    if (write && !now.atomic) cell.use &= ~READ;
    else reads(cell, now.atomic || cell.write.thread != now.thread);
}

// Puts a race of two plain stores off until the second one is done: it may store what is there.
void Checker::undecided(Report report, uintptr_t address, const Access& earlier, const Access& now) {
    Tie tie{std::move(report), address, uint8_t(earlier.bytes & now.bytes), {}, {earlier.code, now.code}};
    memcpy(tie.before, reinterpret_cast<void*>(address), sizeof tie.before);
    ties_.push_back(std::move(tie));
    reader_.thread = nullptr;
}

void Checker::decide() {
    for (Tie& tie : ties_) {
        bool same = true;
        for (unsigned byte = 0; byte < sizeof tie.before; ++byte)
            if (tie.bytes >> byte & 1)
                same &= tie.before[byte] == reinterpret_cast<const unsigned char*>(tie.address)[byte];
        if (same) alike_.emplace(tie.codes, std::move(tie.report));
        else differing_.insert(tie.codes), run_->reports.add(tie.report, run_->base);
    }
    ties_.clear();
}

// Remarks on stores of one value, where no two threads stored different ones in the same lines.
void Checker::report_alike() {
    for (auto& [codes, report] : alike_) {
        if (differing_.count(codes) || differing_.count({codes.second, codes.first})) continue;
        report.kind = "same value";
        report.message = "threads store the same value to " + report.message.substr(strlen("race on "));
        report.message.resize(report.message.find(": "));
        report.message += ", at {0} and {1}, with nothing between them that orders them: right as long as the values "
            "are the same";
        run_->reports.add(report, run_->base);
    }
    alike_.clear(), differing_.clear();
}

// Finds out if a value may be a part of a result that is lost: what a thread keeps from its input, and stores nowhere
// else. A thread beyond the end of the data has no input, and one with a result may go on in registers.
static bool is_kept(const Block& block, uint32_t thread) {
    uint32_t linear = thread - 1 - block.linear * block.count;
    if (linear >= block.count) return true;
    const ThreadClock& its = block.clocks.threads[linear];
    return its.has_input && !its.has_output;
}

// Notes the elements of a block's shared memory that hold a value which no thread has read.
void Checker::ended(Block& block) {
    if (!run_) return;
    for (Region& region : block.memory.regions()) {
        unsigned grain = region.cells->grain();
        judged_ += (region.high - region.low) / grain;
        if (judged_ > MOST_CELLS) return;
        Fate& fate = fates_[region.low - uintptr_t(block.memory.low())];
        fate.name = region.name, fate.element = region.element;
        fate.elements.resize((region.high - region.low + region.element - 1) / region.element);
        for (uintptr_t at = region.low; at < region.high; at += grain) {
            const Cell& cell = (*region.cells)[at];
            if (cell.stamp != block.clocks.stamp || !cell.write.thread) continue;
            uint8_t& element = fate.elements[(at - region.low) / region.element];
            uint32_t value = 0;
            memcpy(&value, reinterpret_cast<void*>(at), grain);
            if (cell.use) element |= READ;
            else if (value && !cell.write.atomic && is_kept(block, cell.write.thread)) {  // a zero adds nothing
                if (!fate.code) fate.code = cell.write.code;
                element |= LOST;
            }
        }
    }
}

// Finds out if shared bytes whose type is not known are structs with members that no thread reads: at some distance
// from each other, which is a struct's size, all are unread.
static bool are_members(const std::vector<uint8_t>& bytes) {
    for (size_t size = 8; size <= 128 && size * 4 <= bytes.size(); size += 4) {
        std::vector<uint8_t> member(size);
        for (size_t i = 0; i < bytes.size(); ++i) member[i % size] |= bytes[i];
        if (std::none_of(member.begin(), member.end(), [](uint8_t each) { return (each & LOST) && (each & READ); }))
            return true;
    }
    return false;
}

// A remark for each shared array in which elements are read in no block, and hold a value in some.
void Checker::report_lost() {
    for (auto& [offset, fate] : fates_) {
        size_t count = 0, first = 0;
        for (size_t i = 0; i < fate.elements.size(); ++i)
            if (fate.elements[i] == LOST && count++ == 0) first = i;
        if (!count || !run_->reports.empty() || run_->failed) continue;
        // The last warp of a sum goes on in registers: none of what it stored on the way is read, and nothing is lost.
        auto begin = fate.elements.begin(), warp = begin + std::min<ptrdiff_t>(32, fate.elements.end() - begin);
        if (warp != fate.elements.end() && std::count(warp, fate.elements.end(), LOST) == 0
            && std::none_of(begin, warp, [](uint8_t each) { return each & READ; })) continue;
        if (fate.element == 1 && are_members(fate.elements)) continue;
        bool one = count == 1;
        std::string unit = fate.element > 1 ? "element" : "byte", elements = std::to_string(count) + " of the "
            + std::to_string(fate.elements.size()) + " " + unit + "s of shared array " + fate.name;
        Report report{"never read", elements + (one ? " holds a value" : " hold values") + " that no thread reads, "
            + (one ? unit : "the first of them " + unit) + " " + std::to_string(first)
            + ", stored at {0}: what should go into a result is lost", fate.name, "", "", {}};
        report.places = {{nullptr, 0, reinterpret_cast<void*>(run_->base + fate.code)}};
        lost_.push_back(std::move(report));
    }
    for (Report& report : lost_) run_->reports.add(report, run_->base);
    fates_.clear(), lost_.clear();
    judged_ = 0;
}

// A conversion out of range that the source does not write down: it is the CPU's.
void Checker::conversion(const std::string& what, Where where) {
    Report report{"conversion", "a number out of range, or NaN, is converted from " + what + " at {0}: a GPU takes the "
        "nearest number in range, which is emulated where the conversion is written down, as (int)x", "", "", "", {}};
    report.places = {where};
    run_->reports.add(report, run_->base);
}

// A number of an array as the type that `View::floats` names.
static double number(uint32_t floats, const void* at) {
    float single = 0;
    double wide = 0;
    uint16_t half = 0;
    if (floats == 8) return memcpy(&wide, at, 8), wide;
    if (floats == 4) return memcpy(&single, at, 4), single;
    memcpy(&half, at, 2);
    unsigned exponent = floats == 3 ? half & 0x7f80 : half & 0x7c00, whole = floats == 3 ? 0x7f80 : 0x7c00;
    if (exponent != whole) return 0;
    return half & (floats == 3 ? 0x7f : 0x3ff) ? NAN : INFINITY;
}

// Finds out if an argument of the launch holds NaN or infinity.
void Checker::look_for_nan() {
    has_only_numbers_ = true;
    for (const Region& region : views_) {
        uint32_t floats = region.view ? region.view->floats : 0, size = floats == 3 ? 2 : floats;
        if (!size) continue;
        for (uintptr_t at = region.low; has_only_numbers_ && at + size <= region.high; at += size)
            has_only_numbers_ = std::isfinite(number(floats, reinterpret_cast<void*>(at)));
    }
}

// A remark for each array in which the launch has stored NaN, if no argument brought it.
void Checker::report_nan() {
    if (!has_only_numbers_ || !run_->reports.empty() || run_->failed) return;
    for (const Region& region : views_) {
        uint32_t floats = region.view ? region.view->floats : 0, size = floats == 3 ? 2 : floats;
        size_t count = 0, all = size ? (region.high - region.low) / size : 0, first = 0;
        for (size_t i = 0; i < all; ++i) {
            uintptr_t at = region.low + i * size;
            const Cell& cell = (*region.cells)[at];
            if (cell.stamp == launch_stamp_ && cell.write.thread
                && std::isnan(number(floats, reinterpret_cast<void*>(at))) && count++ == 0) first = i;
        }
        if (!count) continue;
        const Access& write = (*region.cells)[region.low + first * size].write;
        std::string who = write.thread < ENGINES ? " by " + thread_name(write.thread) : "";
        Report report{"nan", std::to_string(count) + " of the " + std::to_string(all) + " numbers of array "
            + region.name + (count == 1 ? " is" : " are") + " NaN, and no input of the launch holds NaN or infinity: "
            "number " + std::to_string(first) + ", stored at {0}" + who, region.name, "", "", {}};
        report.places = {{nullptr, 0, reinterpret_cast<void*>(run_->base + write.code)}};
        nan_.push_back(std::move(report));
    }
    for (Report& report : nan_) run_->reports.add(report, run_->base);
    nan_.clear();
}

}  // namespace emu
#endif
