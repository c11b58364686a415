// Asynchronous copies to shared memory (cp.async). Each arrives at the latest allowed moment: when its thread waits.
#pragma once
#include <cstring>
#include <vector>

namespace emu {

struct Copy {
    char* to;
    const char* from;
    unsigned bytes, size;  // bytes that are read, and bytes that are written: the others are 0

    void arrive() const {
        memcpy(to, from, bytes);
        memset(to + bytes, 0, size - bytes);
    }
};

// Copies of one thread in the order of their begin. A wait counts groups; copies after the last commit are in none.
struct Copies {
    std::vector<Copy> under_way;
    std::vector<unsigned> groups;  // copies in each
    unsigned committed = 0;        // copies in groups

    void commit() {
        groups.push_back(unsigned(under_way.size()) - committed);
        committed = unsigned(under_way.size());
    }
    // Lets all groups but the last `pending` arrive, and calls `each` for every copy.
    template <class Each> void wait(unsigned pending, Each each) {
        if (groups.size() <= pending) return;
        size_t done = groups.size() - pending;
        unsigned count = 0;
        for (size_t i = 0; i < done; ++i) count += groups[i];
        for (unsigned i = 0; i < count; ++i) {
            under_way[i].arrive();
            each(under_way[i]);
        }
        under_way.erase(under_way.begin(), under_way.begin() + count);
        groups.erase(groups.begin(), groups.begin() + std::ptrdiff_t(done));
        committed -= count;
    }
    void clear() {
        under_way.clear();
        groups.clear();
        committed = 0;
    }
    // True if the copy to an address is in a group.
    bool grouped(const void* to) const {
        for (unsigned i = 0; i < under_way.size(); ++i)
            if (size_t(static_cast<const char*>(to) - under_way[i].to) < under_way[i].size) return i < committed;
        return false;
    }
};

}  // namespace emu
