// Accesses of a checked program's launches and copies to memory: a race of two streams, if no event and no wait orders
// their work, and results that nothing reads.
#include "host.h"

namespace emu {

#ifdef EMU_CHECK
struct Range {
    uintptr_t low, high;
    int how;  // 0 read, 1 written, 2 changed by atomic operations
};
struct Work {
    const void* stream;
    unsigned number;
    std::string what;
    std::vector<Range> ranges;  // in order
};
static constexpr size_t MOST = 64;  // pieces of work on one allocation that are remembered
static auto& unfinished = *new std::map<uintptr_t, std::vector<Work>>;  // by allocation

// First range of a new piece of work that conflicts with one of an earlier piece, and that one; null without.
static std::pair<const Range*, const Range*> conflict(const Work& now, const Work& before) {
    auto a = now.ranges.begin(), b = before.ranges.begin();
    while (a != now.ranges.end() && b != before.ranges.end()) {
        if (a->low < b->high && b->low < a->high && (a->how == 1 || b->how == 1 || a->how != b->how)) return {&*a, &*b};
        (a->high < b->high) ? void(++a) : void(++b);
    }
    return {nullptr, nullptr};
}

// what: of the work, before its place.
static void worked(const Allocation& a, Work now, const std::string& what, Spot place, const std::string& kernel) {
    if (!host().has_streams || now.ranges.empty()) return;
    static const char* verbs[] = {"reads", "writes", "changes"};
    auto& works = unfinished[a.low];
    std::erase_if(works, [](const Work& each) { return is_waited_for(each.stream, each.number); });
    for (const Work& before : works) {
        if (are_ordered(before.stream, before.number, now.stream)) continue;
        auto [mine, its] = conflict(now, before);
        if (!mine) continue;
        uintptr_t at = std::max(mine->low, its->low);
        report("problem", "streams", what + " at {0}" + (kernel.empty() ? " " : ", ") + verbs[mine->how] + " "
            + described(a) + ", from byte " + std::to_string(at - a.low) + " on, which " + before.what + " "
            + verbs[its->how] + (is_graph_step() ? " in another node of the graph, and no dependency orders the two"
            : " in another stream, and no event and no wait orders the two"), a.name, place, kernel);
        break;
    }
    now.what = what + " at " + place_of(place.file, place.line) + (kernel.empty() ? "" : ",");
    if (works.size() == MOST) works.erase(works.begin());
    works.push_back(std::move(now));
}

// Elements that a launch changed in place, each thread one, if it gets the number of all of them as an argument and its
// last block is missing; 0 otherwise.
static size_t rounded_down(const Request& r, const View& view, const Allocation& a) {
    const Config& c = r.config;
    const size_t side = c.block.x, threads = c.grid.x * side, all = a.bytes / a.element;
    if ((view.touched & 3) != 3 || c.grid.y * c.grid.z * c.block.y * c.block.z != 1 || threads >= all
        || all - threads >= side || view.stored != threads * a.element) return 0;
    bool is_given = false;
    for (unsigned i = 1; i <= r.count; ++i) {
        if (r.sizes[i] == 4) is_given |= *static_cast<const uint32_t*>(r.body[i]) == all;
        if (r.sizes[i] == 8) is_given |= *static_cast<const uint64_t*>(r.body[i]) == all;
    }
    uintptr_t last = 0;
    emu_touched((void*)a.low, a.bytes, [](void* to, uintptr_t, uintptr_t high, int how) {
        if (how) *static_cast<uintptr_t*>(to) = high; }, &last);
    return is_given && last == a.low + threads * a.element ? threads : 0;
}

// An array that was copied to the host, and that a kernel then reads, though nothing has ever been stored there.
static void look_for_swap(const Allocation& a, const std::string& kernel, Spot place) {
    size_t first = 0, gaps = 0;
    if (!a.too_early.file || a.is_read || emu_unwritten((char*)a.low, a.bytes, 1, &first, &gaps) < a.bytes) return;
    report("problem", "copy", "the copy at {0} brings what nothing has written to the host, and kernel " + kernel
        + ", launched at " + place_of(place.file, place.line) + ", reads it where it still has no value, in "
        + described(a) + ": target and source are swapped", a.name, a.too_early, kernel);
}

void overlaps_of_launch(const Request& r, const std::vector<View>& views, const void* stream, unsigned number) {
    Spot place{r.config.file, r.config.line};
    for (const View& view : views) {
        Allocation* a = find((void*)view.low);
        if (!a || !view.touched) continue;
        if (view.touched == 1) look_for_swap(*a, r.name, place);
        if (view.touched & 1) a->is_read = true;
        if (view.touched & 2 && !r.config.is_library) {
            a->writer = r.name, a->written_at = place;
            a->reached = rounded_down(r, view, *a);
            a->grid = r.config.grid, a->block = r.config.block, a->stored = view.stored;
        }
        if (view.touched & 2 && a->type != cudaMemoryTypeDevice) host().are_results_read = true;
        if (!host().has_streams || view.touched & 4) continue;
        Work now{stream, number, "", {}};
        emu_touched((void*)a->low, a->bytes, [](void* to, uintptr_t low, uintptr_t high, int how) {
            static_cast<std::vector<Range>*>(to)->push_back({low, high, how});
        }, &now.ranges);
        worked(*a, std::move(now), std::string("kernel ") + r.name + ", launched", place, r.name);
    }
}

void overlaps_of_copy(const Copy& c, const void* stream, unsigned number, Spot place) {
    for (int is_target : {0, 1}) {
        uintptr_t first = uintptr_t(is_target ? c.to : c.from), pitch = is_target ? c.to_pitch : c.from_pitch;
        Allocation* a = find((void*)first);
        if (!a) continue;
        if (!is_target && !(a->too_early.file && a->writer.empty())) a->is_read = true;
        Work now{stream, number, "", {}};
        for (size_t row = 0; row < c.height; ++row)
            now.ranges.push_back({first + row * pitch, first + row * pitch + c.width, is_target});
        worked(*a, std::move(now), c.call, place, "");
    }
}

void unread_results() {
    bool any = false;
    const Allocation* last = nullptr;
    for (auto& [low, a] : host().allocations) {
        if (a.writer.empty() || a.type != cudaMemoryTypeDevice || a.name.empty()) continue;
        last = &a;
        if (a.is_read) continue;
        any = true;
        if (a.too_early.file) {
            report("problem", "not arrived", "the copy at {0} brings what nothing has written yet of " + described(a)
                + ": kernel " + a.writer + " stores it later, at " + place_of(a.written_at.file, a.written_at.line)
                + ", and nothing reads that", a.name, a.too_early, a.writer);
            continue;
        }
        report("remark", "unread result", "what kernel " + a.writer + ", launched at {0}, stores in " + described(a)
            + " is never read: no kernel reads it, and no copy", "", a.written_at, a.writer);
    }
    if (last && !any && !host().are_results_read)
        report("remark", "unread result", "nothing that a kernel stores ever comes to the host; the last is kernel "
            + last->writer + ", launched at {0}, which writes to " + described(*last), last->name, last->written_at,
            last->writer);
}
#else
void overlaps_of_launch(const Request&, const std::vector<View>&, const void*, unsigned) {}
void overlaps_of_copy(const Copy&, const void*, unsigned, Spot) {}
void unread_results() {}
#endif

}  // namespace emu
