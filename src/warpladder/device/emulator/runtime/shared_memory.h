// The shared memory of one block: its static variables, each followed by a gap, and the dynamic part.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "stacks.h"
#include "../headers/interface.h"
#include "shadow.h"

namespace emu {

class SharedMemory {
  public:
    ~SharedMemory() { release(); }

    void shape(const Launch& launch) {
        if (launch.layout == layout_ && launch.dynamic_shared == dynamic_) return;
        layout_ = launch.layout, dynamic_ = launch.dynamic_shared;
        offset_ = (layout_->bytes + 127) / 128 * 128;
        size_t bytes = offset_ + dynamic_ + 4096;  // an overrun of the dynamic part stays in this memory
        if (bytes > capacity_) {
            release();
            capacity_ = (bytes + 65535) / 65536 * 65536;
            low_ = static_cast<char*>(mmap(nullptr, capacity_, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        }
#ifdef EMU_ASAN
        __asan_poison_memory_region(low_, capacity_);
        for (const Place* place = layout_->first; place; place = place->next)
            __asan_unpoison_memory_region(low_ + place->offset, place->bytes);
        __asan_unpoison_memory_region(low_ + offset_, dynamic_);
#endif
#ifdef EMU_CHECK
        regions_.clear();
        for (const Place* place = layout_->first; place; place = place->next)
            add(place->name, place->offset, place->bytes, place->element, std::min(place->element, 4u));
        if (dynamic_) add("dynamic shared memory", offset_, dynamic_, 1, 4);
        std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
#endif
    }
    char* low() const { return low_; }
    unsigned dynamic_offset() const { return offset_; }
    bool holds(const void* address) const { return size_t(static_cast<const char*>(address) - low_) < capacity_; }

#ifdef EMU_CHECK
    std::vector<Region>& regions() { return regions_; }
    // Sets the name of the dynamic shared memory in the kernel.
    void name_dynamic(const char* name, unsigned element) {
        for (auto& region : regions_)
            if (region.low == uintptr_t(low_) + offset_ && region.element != element)
                region.name = name, region.element = element;
    }

  private:
    void add(const char* name, unsigned offset, unsigned bytes, unsigned element, unsigned grain) {
        Region region;
        region.name = name, region.shared = true;
        region.low = uintptr_t(low_) + offset, region.high = region.low + bytes;
        region.element = std::max(element, 1u);
        region.cells = std::make_shared<Cells>(region.low, bytes, grain);
        regions_.push_back(std::move(region));
    }
    std::vector<Region> regions_;
#endif

  private:
    void release() {
        if (low_) unmap(low_, capacity_);
        low_ = nullptr;
    }
    const Layout* layout_ = nullptr;
    unsigned dynamic_ = ~0u, offset_ = 0;
    char* low_ = nullptr;
    size_t capacity_ = 0;
};

}  // namespace emu
