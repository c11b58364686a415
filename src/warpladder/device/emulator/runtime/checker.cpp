// Checker of every access of a kernel thread: within an array, to written memory, ordered after earlier accesses.
// Called by the one OS thread of a checked launch.
#ifdef EMU_CHECK
#include <dlfcn.h>
#include <link.h>

#include "worker.h"

namespace emu {

// The lowest and the highest address of a loaded module's writable data.
static void find_module(const void* code, uintptr_t& base, Region& data) {
    Dl_info info;
    if (!dladdr(code, &info)) return;
    base = uintptr_t(info.dli_fbase);
    struct Search { uintptr_t base; Region* data; } search{base, &data};
    dl_iterate_phdr(
        [](dl_phdr_info* module, size_t, void* to) {
            auto& search = *static_cast<Search*>(to);
            if (module->dlpi_addr != search.base) return 0;
            for (int i = 0; i < module->dlpi_phnum; ++i) {
                auto& segment = module->dlpi_phdr[i];
                if (segment.p_type != PT_LOAD) continue;
                uintptr_t low = module->dlpi_addr + segment.p_vaddr;
                if (!search.data->low || low < search.data->low) search.data->low = low;
                search.data->high = std::max(search.data->high, low + segment.p_memsz);
            }
            return 1;
        },
        &search);
}

// Allocation that an address is in, or that ends there, or null.
Allocation* Checker::holding(uintptr_t address) {
    auto found = allocations.upper_bound(address);
    if (found == allocations.begin()) return nullptr;
    Allocation& memory = (--found)->second;
    return address - memory.low <= memory.bytes ? &memory : nullptr;
}

void Checker::begin(Run& run) {
    run_ = &run;
    const Launch& launch = run.launch;
#ifdef EMU_COUNT
    counter.begin();
#endif
    parent_reads_.clear();
    parent_ = launch.parent ? *launch.parent : Parent{"", NO_STAMP, 0, 0, 0, 0, 0};
    threads_per_block_ = run.block.x * run.block.y * run.block.z;
    views_.clear();
    sync_points_.clear();
    lanes_.clear();
    std::fill_n(near_, PLACES, Near{});
    launch_stamp_ = begun_ = ++stamp_;
    launch_moment_ = moments_ += MOMENT;
    has_unordered_blocks_ = true;
    for (unsigned i = 0; i < launch.views; ++i) {
        const View& view = launch.view[i];
        Region region;
        region.low = view.low, region.high = view.low + view.bytes;
        region.name = view.name, region.element = std::max(view.element, 1u), region.constant = view.constant,
            region.symbol = view.symbol, region.view = &view;
        const Allocation* memory = holding(view.low);
        if (!memory) continue;
        region.cells = memory->cells;
        region.written = static_cast<unsigned char*>(memory->written->at()), region.written_low = memory->low;
        views_.push_back(std::move(region));
    }
    std::stable_sort(views_.begin(), views_.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
    Region module;
    find_module(launch.code, run.base, module);
    if (module.low != module_.low || module.high != module_.high) {
        module.name = "a __device__ variable", module.module = true, module.element = 1;
        module.cells = std::make_shared<Cells>(module.low, module.high - module.low, 4);
        module_ = module;
    }
    heap_begins();
    look_for_nan();
}

void Checker::allocated(const Allocation& memory) {
    if (!run_) return;
    Region region;
    region.low = memory.low, region.high = memory.low + memory.bytes, region.name = "heap";
    region.element = 4, region.cells = memory.cells;
    region.written = static_cast<unsigned char*>(memory.written->at()), region.written_low = memory.low;
    auto after = [](const Region& a, const Region& b) { return a.low < b.low; };
    views_.insert(std::upper_bound(views_.begin(), views_.end(), region, after), region);
    std::fill_n(near_, PLACES, Near{});
}

void Checker::end() {
    decide();
    judge(0, 0, 0);
    report_unread(false);
    report_nan();
    report_lost();
    report_alike();
#ifdef EMU_COUNT
    counter.flush();
#endif
    std::fill_n(near_, PLACES, Near{});
    run_ = nullptr;
}

void Checker::begin(Block& block) {
#ifdef EMU_COUNT
    if (worker_here->resident == 0) counter.flush();  // the blocks before have ended
#endif
    decide();
    report_unread(true);
    block.clocks.epoch = 0;
    block.clocks.stamp = ++stamp_;
    passes(block.clocks);
    block.clocks.known = block.clocks.passed = block.clocks.fenced = nullptr;
    block.clocks.learned.clear();
    block.clocks.fencing.clear();
    block.clocks.threads.assign(block.count, {});
}

bool Checker::conflict(Thread& me, const Access& earlier, const Access& now, bool shared, bool is_read) {
    if (!earlier.thread || !(earlier.bytes & now.bytes) || earlier.thread == now.thread) return false;
    if (earlier.thread < ENGINES && earlier.atomic && now.atomic && now.atomic < UNDER_WAY) {
        uint32_t its_block = (earlier.thread - 1) / threads_per_block_,
            its_linear = (earlier.thread - 1) % threads_per_block_;
        bool same_block = its_block == block_of(me).linear;
        // Volatile orders nothing: lanes of a warp that pass numbers on through volatile shared memory need a
        // __syncwarp().
        bool volatile_lanes = shared && earlier.atomic == 4 && now.atomic == 4 && same_block
            && its_linear / 32 == me.linear / 32;
        bool too_narrow = !same_block && (earlier.atomic == 1 || now.atomic == 1);
        if (!volatile_lanes && !too_narrow) return false;
    }
    return !ordered(me, earlier, is_read);
}

void Checker::remember(Thread& me, Region& region, uintptr_t address, size_t size, bool write, int atomic,
    uint32_t code) {
    ThreadClock& mine = clock(me);
    unsigned grain = region.cells->grain(), every = (1u << grain) - 1;
    Access now{number_of(me), mine.epoch, mine.clock, code, 0, uint8_t(atomic)};
    uintptr_t end = std::min(address + size, region.high);
    uint32_t stamp = region.shared ? owner_of(me, address).clocks.stamp : launch_stamp_;
    if (region.shared && !owner_of(me, address).live) return left(me, region, address, write, code);
    for (uintptr_t at = address & ~uintptr_t(grain - 1); at < end; at += grain) {
        Cell& cell = (*region.cells)[at];
        if (cell.stamp != stamp) {
            if (cell.stamp == parent_.stamp) after_launch(me, region, at, cell, now, write);
            cell = Cell{};
            cell.stamp = stamp;
        }
        region.cells->settled(at) = 0;
        unsigned bytes = every;
        if (at < address) bytes &= every << (address - at);
        if (at + grain > end) bytes &= every >> (at + grain - end);
        now.bytes = uint8_t(bytes);
        if ((cell.write.atomic == UNDER_WAY || cell.write.atomic == TILE) && cell.write.bytes & bytes) {
            unfinished(me, region, at, cell.write, now, write ? "writes" : "reads");
            continue;
        }
        if (write && !parent_reads_.empty())
            if (auto read = parent_reads_.extract(at)) with_parent(me, region, at, read.mapped(), now, false, true);
        bool reads = !write || (atomic >= 1 && atomic <= 3 && !is_store);
        if (region.shared) used(cell, now, write);
        else (write ? mine.has_output : mine.has_input) = true;
        if (reads && !known_written(region, cell, at, bytes, size)) unread(me, region, at, code);
        if (conflict(me, cell.write, now, region.shared))
            race(me, region, at, cell.write, "write", now, write ? "write" : "read");
        if (write) {
            for (auto& read : cell.read)
                if (conflict(me, read, now, region.shared, true)) {
                    race(me, region, at, read, "read", now, "write");
                    break;
                }
            cell.write = now;
            cell.written |= uint8_t(bytes);
            if (region.written)
                for (unsigned byte = 0; byte < grain; ++byte)
                    if (bytes >> byte & 1) region.written[at + byte - region.written_low] = 1;
        } else {
            if (atomic) observes(me, region, at, cell.write, now);
            remember_read(me, cell, now);
        }
    }
}

// A copy for which the thread has waited is a write of the thread at this moment.
void Checker::arrived(Thread& me, const void* pointer, size_t size) {
    uintptr_t address = uintptr_t(pointer);
    Region* region = find(me, address);
    if (!region) return;
    ThreadClock& mine = clock(me);
    for (uintptr_t at = address; at < address + size; at += region->cells->grain()) {
        Access& write = (*region->cells)[at].write;
        if (write.atomic != UNDER_WAY || write.thread != number_of(me)) continue;
        write.epoch = mine.epoch, write.clock = mine.clock, write.atomic = 0;
    }
}

// A requested tile: no thread may access its target until it has arrived.
void Checker::tile(const void* address, size_t size, const void* code) { access(address, size, true, TILE, code); }

// An arrived tile: a write of the copy engine, in the phase of the barrier at which its bytes arrived.
void Checker::tile_arrived(Thread& me, const void* pointer, size_t size, uint32_t engine, uint32_t moment) {
    uintptr_t address = uintptr_t(pointer);
    Region* region = find(me, address);
    if (!region) return;
    for (uintptr_t at = address; at < address + size; at += region->cells->grain()) {
        Access& write = (*region->cells)[at].write;
        if (write.atomic == TILE) write.thread = engine, write.epoch = 0, write.clock = moment, write.atomic = ENGINE;
    }
}

// A read of the tensor cores for a thread, which ends when the thread has waited for their group.
void Checker::engine_reads(Thread& me, const void* pointer, size_t size, uint32_t engine, uint32_t moment,
    const void* code_address) {
    uintptr_t address = uintptr_t(pointer);
    uint32_t code = uint32_t(uintptr_t(code_address) - run_->base), number = number_of(me);
    Region* region = find(me, address);
    if (!region || address + size > region->high) outside(me, address, size, false, code);
    uint32_t stamp = owner_of(me, address).clocks.stamp;
    unsigned grain = region->cells->grain();
    Access now{number, clock(me).epoch, clock(me).clock, code, uint8_t((1u << grain) - 1), 0};
    for (uintptr_t at = address; at < address + size; at += grain) {
        Cell& cell = (*region->cells)[at];
        if (cell.stamp != stamp) cell = Cell{}, cell.stamp = stamp;
        region->cells->settled(at) = 0;
        if (cell.write.atomic == UNDER_WAY || cell.write.atomic == TILE) {
            unfinished(me, *region, at, cell.write, now, "reads");
            continue;
        }
        if (!known_written(*region, cell, at, now.bytes, size)) unread(me, *region, at, code);
        if (conflict(me, cell.write, now, true)) race(me, *region, at, cell.write, "write", now, "read");
        else if (cell.write.thread && cell.write.thread < ENGINES) {
            Block& block = block_of(me);
            uint32_t first = block.linear * block.count + 1, linear = cell.write.thread - first;
            if (linear < block.count && !block.clocks.threads[linear].proxy.after(cell.write.epoch, cell.write.clock))
                unfenced(me, *region, at, cell.write, code);
        }
        used(cell, now, false);
        Access read = now;
        read.thread = engine, read.epoch = 0, read.clock = moment, read.atomic = ENGINE;
        remember_read(me, cell, read);
    }
}

// The first reader, and the last one of another warp: at least one of them is in another warp than the next writer.
void Checker::remember_read(Thread& me, Cell& cell, const Access& now) {
    Access &first = cell.read[0], &second = cell.read[1];
    const uint32_t begin = number_of(me) - me.linear;  // of the block's threads
    auto warp = [=](const Access& access) { return int32_t(access.thread - begin) >> 5; };
    if (!first.thread || first.thread == now.thread || (first.epoch != now.epoch && ordered(me, first, true)))
        first = now;
    else if (!second.thread || warp(now) != warp(first) || warp(second) == warp(first)) second = now;
}

// A copied struct has bytes between its members that are never written; so of a long access one byte in four must
// be known. Before a member of eight bytes there may be four: in global memory they are marked if the type is known.
bool Checker::known_written(const Region& region, const Cell& cell, uintptr_t at, unsigned bytes, size_t size) {
    unsigned known = cell.written;
    if (!region.shared) {
        if (!region.written) return true;
        known = 0;
        for (unsigned byte = 0; bytes >> byte; ++byte)
            if (bytes >> byte & 1 && region.written[at + byte - region.written_low]) known |= 1u << byte;
    }
    if (size >= 4 ? known & bytes : (known & bytes) == bytes) return true;
    const bool may_be_padding = region.shared ? region.element > 8 : !region.view || region.element == 1;
    if (!may_be_padding || size <= 8 || at % 8 != 4 || at - 4 < region.low) return false;
    const Cell& before = (*region.cells)[at - 4];
    return region.shared ? before.stamp == cell.stamp && before.written : region.written[at - 4 - region.written_low];
}

// The block to whose shared memory an address belongs.
Block& Checker::owner_of(Thread& me, uintptr_t address) {
    Block& block = block_of(me);
    if (block.memory.holds(reinterpret_cast<void*>(address))) return block;
    for (Block* other : block.group->blocks)
        if (other->memory.holds(reinterpret_cast<void*>(address))) return *other;
    return block;
}

void Checker::access(const void* pointer, size_t size, bool write, int atomic, const void* code_address) {
    if (!current || !run_) return;
    if (!ties_.empty()) decide();
    Thread& me = self();
    uintptr_t address = uintptr_t(pointer);
    if (!guesses_.empty()) judge(number_of(me), address, size);
    uint32_t code = uint32_t(uintptr_t(code_address) - run_->base);
    if (const Stack& mine = *worker_here->here; mine.holds(pointer)) {
        if (mine.is_dead(pointer, __builtin_frame_address(0))) outside(me, address, size, write, code);
        return touches_sums(me, pointer, size, write, code_address);
    }
    Near& last = near(uintptr_t(code_address));
    Region* region = last.holds(address) ? last.region : find(me, address);
    if (!region || address + size > region->high) outside(me, address, size, write, code);
    last = {region->low, region->high - region->low, region->cells->origin(),
        region->cells->settled_origin(), region->cells->grain(), region};
    if (region->view) {  // an atomic change returns what was there
        region->view->touched |= (write ? 2 : 1) | (write && atomic ? 1 : 0) | (atomic == 3 || atomic == 4 ? 4 : 0);
        if (write && !atomic) region->view->stored += size;
    }
    if (write && !region->shared) run_->launch.effects |= 1;
#ifdef EMU_COUNT
    if (!region->symbol && !region->module) {
        Act act = atomic && atomic < 4 ? Act::atomic : write ? Act::store : Act::load;
        if (region->shared) act = Act(unsigned(act) + 3);
        counted(me, act, code, region->shared ? address - uintptr_t(block_of(me).shared) : address, size);
    }
#endif
    remember(me, *region, address, size, write, atomic, code);
}

#ifdef EMU_COUNT
void Checker::counted(Thread& me, Act act, uint32_t code, uintptr_t address, size_t size) {
    Block& block = block_of(me);
    counter.note(block.linear, me.linear, act, code, address, size);
    if (counter.full())
        worker_here->fail({"too large", "a block's threads take more steps than are counted: use smaller sizes", "",
            text(block.index), "", {}});
}
void Checker::entered(const void* code, uintptr_t frame) {
    counted(self(), Act::block, uint32_t(uintptr_t(code) - run_->base), frame, 0);
}
#endif

// Array that an address is in; of several arguments with the same memory, one that may be written.
Region* Checker::find(Thread& me, uintptr_t address) {
    auto search = [&](std::vector<Region>& regions) -> Region* {
        Region* found = nullptr;
        auto after = std::upper_bound(regions.begin(), regions.end(), address, [](uintptr_t a, const Region& r) {
            return a < r.low; });
        for (auto at = after; at != regions.begin();) {
            --at;
            if (address < at->high && (!found || found->constant)) found = &*at;
            if (found && !found->constant) break;
        }
        return found;
    };
    for (Block* block : block_of(me).group->blocks)
        if (block->memory.holds(reinterpret_cast<void*>(address))) return search(block->memory.regions());
    if (Region* found = search(views_)) return found;
    if (address >= module_.low && address < module_.high) return &module_;
    return nullptr;
}

}  // namespace emu
#endif
