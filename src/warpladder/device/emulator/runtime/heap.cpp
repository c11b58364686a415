// Memory that kernels allocate by malloc and new: each piece is an array of its own until it is freed.
#include <cstdlib>

#include "worker.h"

#ifdef EMU_CHECK
namespace emu {

void* Checker::heap_allocate(size_t bytes) {
    static thread_local bool is_inside = false;  // its own containers allocate too
    void* memory = malloc(bytes ? bytes : 1);
    if (!memory || !run_ || !current || is_inside) return memory;
    is_inside = true;
    uintptr_t low = uintptr_t(memory);
    allocations[low] = {low, bytes, std::make_shared<Cells>(low, bytes, 1), std::make_unique<Lazy>(bytes)};
    heap_.insert(low);
    std::erase_if(freed_, [=](auto& each) { return each.first < low + bytes && low < each.first + each.second; });
    allocated(allocations[low]);
    is_inside = false;
    return memory;
}

bool Checker::is_freed(uintptr_t address) const {
    auto after = freed_.upper_bound(address);
    return after != freed_.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

void Checker::heap_free(void* memory, const void* code) {
    uintptr_t low = uintptr_t(memory);
    if (run_ && current && memory && !heap_.count(low)) {
        const char* what = is_freed(low) ? "memory that a kernel has freed already"
            : "what no kernel has allocated by malloc or new";
        Report report = report_of(self(), "free", here(self()) + " frees, at {0}, " + what, "");
        report.places = {at_hand(*run_, uint32_t(uintptr_t(code) - run_->base))};
        worker_here->end_thread(std::move(report));
    }
    if (current && heap_.erase(low)) {
        freed_[low] = std::max(allocations[low].bytes, size_t(1));
        std::erase_if(views_, [&](const Region& region) { return region.low == low; });
        std::fill_n(near_, PLACES, Near{});
        allocations.erase(low);
    }
    free(memory);
}

// What earlier launches have allocated.
void Checker::heap_begins() {
    for (uintptr_t low : heap_) allocated(allocations[low]);
}

}  // namespace emu

EMU_EXPORT void* emu_heap(size_t bytes) { return emu::checker.heap_allocate(bytes); }
EMU_EXPORT void emu_unheap(void* memory) { emu::checker.heap_free(memory, __builtin_return_address(0)); }
#else
EMU_EXPORT void* emu_heap(size_t bytes) { return malloc(bytes); }
EMU_EXPORT void emu_unheap(void* memory) { free(memory); }
#endif
