// Messages of the checker, made in the thread that detected the fault.
#ifdef EMU_CHECK
#include <unwind.h>

#include "worker.h"

namespace emu {

static std::string here(Thread& me) { return "block " + text(me.block->index) + " thread " + text(me.index); }

static Report report_of(Thread& me, const char* kind, const std::string& message, const std::string& array) {
    return {kind, message, array, text(me.block->index), text(me.index), {}};
}

// A place in the kernel's code, whose address is stored relative to the module's base.
static Where in_code(Run& run, uint32_t code) { return {nullptr, 0, reinterpret_cast<void*>(run.base + code)}; }

// The place at which the running thread is, with the calls that led there: of an access in a header's function the
// user's line is one of them. Unwound once for each place, from the first frame of the kernel's module to the last.
static Where at_hand(Run& run, uint32_t code) {
    struct Walk { uintptr_t base, code; std::string calls; int count; };
    static auto& known = *new std::map<uintptr_t, std::string>;
    auto [found, is_new] = known.try_emplace(run.base + code);
    Walk walk{run.base, run.base + code, "", 0};
    if (is_new) {
        _Unwind_Backtrace([](_Unwind_Context* frame, void* to) {
            Walk& walk = *static_cast<Walk*>(to);
            uintptr_t at = _Unwind_GetIP(frame);
            Dl_info module;
            bool is_kernel = dladdr(reinterpret_cast<void*>(at), &module) && uintptr_t(module.dli_fbase) == walk.base;
            if (is_kernel && ++walk.count && at != walk.code) walk.calls += "/" + std::to_string(at - walk.base);
            return is_kernel ? walk.count < 16 ? _URC_NO_REASON : _URC_END_OF_STACK
                : walk.count ? _URC_END_OF_STACK : _URC_NO_REASON;
        }, &walk);
        found->second = walk.calls;
    }
    return {nullptr, 0, reinterpret_cast<void*>(run.base + code), 0, found->second.c_str()};
}

std::string Checker::thread_name(uint32_t thread) {
    uint32_t block = (thread - 1) / threads_per_block_, linear = (thread - 1) % threads_per_block_;
    return "block " + text(Run::at(run_->grid, block)) + " thread " + text(Run::at(run_->block, linear));
}

std::string Checker::element(const Region& region, uintptr_t address) {
    std::string what = region.shared ? "shared array " : region.symbol ? "__constant__ " : region.module ? ""
        : "array ";
    if (region.module) return region.name;
    uintptr_t offset = address - region.low;
    if (region.element > 1 || region.high - region.low == 1)
        return what + region.name + ", element " + std::to_string(offset / region.element);
    return what + region.name + ", byte " + std::to_string(offset);
}

void Checker::race(Thread& me, Region& region, uintptr_t address, const Access& earlier, const char* was,
    const Access& now, const char* is) {
    auto of = [](const Access& a, const char* what) {
        return std::string(a.atomic == 4 ? "volatile " : a.atomic == UNDER_WAY || a.atomic == TILE ? "asynchronous "
            : a.atomic && a.atomic < UNDER_WAY ? "atomic " : "") + what;
    };
    bool engine = earlier.thread >= ENGINES, other_block = !engine
        && (earlier.thread - 1) / threads_per_block_ != (now.thread - 1) / threads_per_block_;
    bool in_step = region.shared && !engine && !other_block && earlier.atomic == 4 && now.atomic == 4
        && (earlier.thread - 1) % threads_per_block_ / 32 == (now.thread - 1) % threads_per_block_ / 32;
    if (in_step && !lanes_.insert(region.name).second) return;  // each line of a sum that counts on steps has one
    std::string message = "race on " + element(region, address) + ": " + of(now, is) + " by " + here(me)
        + " at {0} and " + of(earlier, was) + " by " +
                          (engine ? earlier.atomic == ENGINE && !strcmp(was, "write") ? "the copy engine, requested"
                              : "the tensor cores, for wgmma" : thread_name(earlier.thread))
                              + " at {1}, with nothing between them that orders "
                              + (other_block ? "the blocks" : in_step
                                  ? "these lanes of one warp: volatile does not, since lanes need not run in step"
                                  : "the threads");
    if (auto unread = unread_.find(earlier.code); unread != unread_.end() && unread->second.address == address)
        unread_.erase(unread);
    Report report = report_of(me, "race", message, region.name);
    report.places = {at_hand(*run_, now.code), in_code(*run_, earlier.code)};
    bool stores = !earlier.atomic && !now.atomic && !strcmp(was, "write") && !strcmp(is, "write");
    bool reads = earlier.atomic && earlier.atomic <= 3 && !now.atomic && !strcmp(is, "read");
    if (stores) undecided(std::move(report), address, earlier, now);
    else if (reads) guesses_.push_back({std::move(report), address, now.thread}), reader_.thread = nullptr;
    else worker_here->warn(report);
}

// A thread has read what one of another block stored, and now reads another store of that one, with no fence between
// the two: neither waits for the other.
void Checker::observes(Thread& me, Region& region, uintptr_t address, const Access& write, const Access& now) {
    if (!write.atomic || write.atomic > 4 || write.thread >= ENGINES || region.shared) return;
    ThreadClock& mine = clock(me);
    Access& flag = mine.flag;
    const bool is_other_block = (write.thread - 1) / threads_per_block_ != block_of(me).linear;
    if (is_other_block && write.atomic == 4 && now.atomic == 4 && flag.thread == write.thread
        && flag.epoch == write.epoch && flag.clock == write.clock && flag.code != write.code
        && !ordered(me, write, true)) {
        Report report = report_of(me, "race", here(me) + " reads " + element(region, address) + " at {0}, stored by "
            + thread_name(write.thread) + " at {1}, after it has read what that thread stored at {2}, with no "
            "__threadfence() between the two stores: other blocks may see them in either order", region.name);
        report.places = {at_hand(*run_, now.code), in_code(*run_, write.code), in_code(*run_, flag.code)};
        worker_here->warn(report);
    } else if (is_other_block) flag = write;
}

// The first access of a launched kernel to what its parent may access at the same time: a thread that has launched it,
// or one of the same block after a barrier.
void Checker::after_launch(Thread& me, Region& region, uintptr_t address, const Cell& cell, const Access& now,
    bool write) {
    auto is_later = [&](const Access& access) {
        return access.thread && access.thread < ENGINES && (access.thread - 1) / parent_.threads == parent_.block
            && (access.epoch > parent_.epoch || (access.thread == parent_.thread && access.epoch == parent_.epoch
                && access.clock >= parent_.clock));
    };
    for (const Access* access : {&cell.write, &cell.read[0], &cell.read[1]}) {
        if (!is_later(*access)) continue;
        const bool wrote = access == &cell.write;
        if (wrote || write) return with_parent(me, region, address, *access, now, wrote, write);
        parent_reads_.emplace(address, *access);  // it may write there yet
    }
}

void Checker::with_parent(Thread& me, Region& region, uintptr_t address, const Access& its, const Access& now,
    bool wrote, bool write) {
    Report report = report_of(me, "child kernel", std::string("kernel ") + parent_.kernel + (wrote ? " writes "
        : " reads ") + element(region, address) + " at {1} after it has launched kernel " + run_->launch.name
        + ", which " + (write ? "writes" : "reads") + " it at {0}: that kernel may run at any time up to the end "
        "of the one that launches it, in which nothing waits for it", region.name);
    report.places = {at_hand(*run_, now.code), in_code(*run_, its.code)};
    worker_here->warn(report);
}

// An access to the target of a copy that has not arrived.
void Checker::unfinished(Thread& me, Region& region, uintptr_t address, const Access& copy, const Access& now,
    const char* is) {
    if (copy.atomic == TILE) {
        Report report = report_of(me, "unfinished copy",
            here(me) + " " + is + " " + element(region, address)
            + " at {0} before the tile has arrived that was requested at {1}: no thread has waited for its barrier",
            region.name);
        report.places = {at_hand(*run_, now.code), in_code(*run_, copy.code)};
        return worker_here->warn(report);
    }
    Block& block = owner_of(me, address);
    uint32_t linear = (copy.thread - 1) % threads_per_block_;
    bool own = copy.thread == now.thread, grouped = block.copies[linear].grouped(reinterpret_cast<void*>(address));
    std::string who = own ? "that it began" : "that " + thread_name(copy.thread) + " began", waits = own ? "it"
        : "that thread";
    bool of_barrier = std::any_of(block.phases.begin(), block.phases.end(), [=](auto& each) {
        return std::any_of(each.second.copies.begin(), each.second.copies.end(), [=](auto& mine) {
            return std::any_of(mine.second.begin(), mine.second.end(), [=](const Copy& c) {
                return address - uintptr_t(c.to) < c.size; });
        });
    });
    std::string why = of_barrier ? "no thread has waited for its barrier, or its stage of the pipeline"
        : grouped ? waits + " has not waited for the copy's group"
        : waits + " has not committed the copy to a group, and a wait counts groups";
    Report report = report_of(me, "unfinished copy",
        here(me) + " " + is + " " + element(region, address) + " at {0} before the copy " + who
        + " at {1} has arrived: " + why, region.name);
    report.places = {at_hand(*run_, now.code), in_code(*run_, copy.code)};
    worker_here->warn(report);
}

// An access to the shared memory of a block that has ended.
void Checker::left(Thread& me, Region& region, uintptr_t address, bool write, uint32_t code) {
    Report report = report_of(me, "cluster", here(me) + (write ? " writes " : " reads ") + element(region, address)
        + " of block " + text(owner_of(me, address).index) + " at {0}, which has left the kernel", region.name);
    report.places = {at_hand(*run_, code)};
    worker_here->warn(report);
}

// Accesses of other blocks to the shared memory of a block that ends, which none of its threads has waited for: had it
// ended sooner, they would have come too late.
void Checker::end(Block& block) {
    if (!run_ || block.cluster < 2) return;
    Known known, passed;
    join(known, block.clocks.known);
    join(passed, block.clocks.passed);
    for (const ThreadClock& its : block.clocks.threads) join(known, its.known), join(passed, its.passed);
    auto late = [&](const Access& access, bool is_read) {
        if (!access.thread || access.thread >= ENGINES || access.atomic == TILE) return false;
        uint32_t its_block = (access.thread - 1) / threads_per_block_;
        auto covers = [&](const Known& of) {
            return of && of->covers(its_block, access.thread, access.epoch, access.clock); };
        return its_block != block.linear && !covers(known) && !(is_read && covers(passed));
    };
    for (Region& region : block.memory.regions())
        for (uintptr_t at = region.low; at < region.high; at += region.cells->grain()) {
            const Cell& cell = (*region.cells)[at];
            if (cell.stamp != block.clocks.stamp) continue;
            // a wait for a phase is one for its arrivals, also for those that publish no writes
            bool writes = late(cell.write, block.phases.count(reinterpret_cast<void*>(at & ~uintptr_t(7))) > 0);
            const Access& access = writes ? cell.write : cell.read[late(cell.read[1], true)];
            if (!writes && !late(access, true)) continue;
            Thread& last = block.threads[0];
            Report report = report_of(last, "cluster", thread_name(access.thread) + (writes ? " writes " : " reads ")
                + element(region, at) + " of block " + text(block.index) + " at {0}, and nothing makes that block wait "
                "for it: it may have left the kernel by then", region.name);
            report.places = {in_code(*run_, access.code)};
            worker_here->warn(report);
            break;
        }
}

// A read by the tensor cores, which see memory through another proxy, of a thread's write.
void Checker::unfenced(Thread& me, Region& region, uintptr_t address, const Access& earlier, uint32_t code) {
    std::string message = "wgmma of " + here(me) + " reads " + element(region, address) + " at {0}, and "
        + thread_name(earlier.thread)
        + ", which wrote it at {1}, has not passed tiles_written() since: the tensor cores may not see it";
    Report report = report_of(me, "proxy fence", message, region.name);
    report.places = {in_code(*run_, code), in_code(*run_, earlier.code)};
    worker_here->warn(report);
}

// An access to a thread's own memory, where only sums that tensor cores add to matter.
void Checker::touches_sums(Thread& me, const void* pointer, size_t size, bool write, const void* code) {
    Block& block = block_of(me);
    if (block.products.empty()) return;
    Products& mine = block.products[me.linear];
    const char* address = static_cast<const char*>(pointer);
    auto meet = [&](const char* sums, unsigned bytes) { return address < sums + bytes && sums < address + size; };
    if (mine.sums && meet(mine.sums, mine.bytes)) mine.fenced = false;
    for (const Product& product : mine.begun) {
        if (!meet(reinterpret_cast<const char*>(product.d), product.columns * 2)) continue;
        Report report = report_of(me, "unfinished product",
            here(me) + (write ? " writes to" : " reads")
            + std::string(" sums at {0} before the wgmma is done that it began at {1}: wgmma_wait comes first"), "");
        report.places = {{nullptr, 0, code}, {product.file, product.line}};
        return worker_here->warn(report);
    }
}

void Checker::unread(Thread& me, Region& region, uintptr_t address, uint32_t code) {
    if (!run_->ended_threads.empty()) return;
    std::string why = region.symbol ? ", which was never filled" : ", and nothing was ever written there";
    Report report = report_of(me, region.symbol ? "unfilled" : "uninitialised",
        here(me) + " reads " + element(region, address) + " at {0}" + why, region.name);
    report.places = {at_hand(*run_, code)};
    unread_.emplace(code, Unread{report, address, region.shared});
}

void Checker::report_unread(bool shared_only) {
    for (auto at = unread_.begin(); at != unread_.end();) {
        if (shared_only && !at->second.shared) {
            ++at;
            continue;
        }
        run_->reports.add(at->second.report, run_->base);
        at = unread_.erase(at);
    }
}

void Checker::outside(Thread& me, uintptr_t address, size_t size, bool write, uint32_t code) {
    std::string doing = std::string(write ? "writes " : "reads ") + std::to_string(size) + " bytes ", array, where;
    Report report = report_of(me, "out of bounds", "", "");
    report.places = {at_hand(*run_, code)};
    if (address < 4096) where = "at address " + std::to_string(address) + ": a null pointer";
    else if (worker_here->here->holds(reinterpret_cast<void*>(address)))
        where = "of a local variable that is no more: its thread or its function has ended";
    else if (is_freed(address)) where = "of memory that a kernel has freed";
    else if (worker_here->stacks.hold(reinterpret_cast<void*>(address))) where = "of another thread's local variables";
    else {
        uintptr_t best = ~uintptr_t(0), region_of_launch = 0;  // dynamic shared memory
        auto consider = [&](const Region& region) {
            bool beyond = address + size > region.high;
            uintptr_t distance = address >= region.low && beyond ? (address >= region.high ? address - region.high : 0)
                : region.low - address;
            if (address < region.low) distance = region.low - address;
            if (distance >= best) return;
            best = distance;
            array = region.name;
            std::string name = (region.shared ? "shared array " : "array ") + array + " of "
                + std::to_string((region.high - region.low) / region.element) +
                               (region.element > 1 ? " elements" : " bytes");
            bool by_launch = region.shared && region.low == region_of_launch;
            if (by_launch) name += ", the " + std::to_string(region.high - region.low) + " bytes that the launch gives";
            if (address >= region.high)
                where = distance ? std::to_string(distance) + " bytes after the end of " + name
                : "after the end of " + name;
            else if (address < region.low) where = std::to_string(distance) + " bytes before the beginning of " + name;
            else where = "across the end of " + name;
        };
        bool found = false;
        for (Block* block : block_of(me).group->blocks)
            if (block->memory.holds(reinterpret_cast<void*>(address))) {
                region_of_launch = uintptr_t(block->memory.low()) + block->memory.dynamic_offset();
                for (auto& region : block->memory.regions()) consider(region);
                if (block->memory.regions().empty()) where = "of shared memory, of which the launch has none", best = 0;
                found = true;
            }
        if (!found)
            for (auto& region : views_) consider(region);
        if (best > (explain ? 1u << 20 : 1u << 30)) {  // a program's arrays have guards of a megabyte
            Explanation why = explain ? explain(reinterpret_cast<void*>(address)) : Explanation{};
            array = "", where = why.is_host ? "of the host's memory, which a kernel on a GPU cannot reach"
                : "that belong to no array of this launch";
            if (why.text) where += std::string(": ") + why.text;
            if (why.is_host) report.kind = "host pointer";
            if (why.code) report.places.push_back({nullptr, 0, why.code});
        }
    }
    report.array = array;
    report.message = here(me) + " " + doing + where + ", at {0}";
    worker_here->end_thread(std::move(report));
}

void Checker::misaligned(const void* address, unsigned alignment, const std::string& type, Where where) {
    Thread& me = self();
    Region* region = find(me, uintptr_t(address));
    std::string what = region ? element(*region, uintptr_t(address))
        : "memory at " + std::to_string(uintptr_t(address));
    Report report = report_of(me, "misaligned",
        here(me) + " uses " + what + " as a " + type + " at {0}, whose address must be a multiple of "
        + std::to_string(alignment), region ? region->name : "");
    report.places = {where};
    worker_here->end_thread(std::move(report));
}

void Checker::out_of_bounds(const std::string& what, Where where) {
    Thread& me = self();
    Report report = report_of(me, "out of bounds", here(me) + " " + what + ", at {0}", "");
    report.places = {where};
    worker_here->end_thread(std::move(report));
}

}  // namespace emu
#endif
