// Faults of a launch as text for Python: fields end with a unit separator, reports with a record separator. Any OS
// thread of the launch may add one.
#pragma once
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../headers/interface.h"

namespace emu {

// A place in the kernel's source: by name, or by an address in the module that Python looks up.
struct Where {
    const char* file = nullptr;
    int line = 0;
    const void* address = nullptr;
    int column = 0;  // of the bracket that closes an index; Python reads the array's name before it
    const char* callers = nullptr;  // of the address, "/1/2" from the module's base
};

inline std::string text(uint3 v) { return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", "
    + std::to_string(v.z) + ")"; }
inline std::string text(dim3 v) { return text(uint3(v)); }

struct Report {
    std::string kind;     // one word or two: "race", "out of bounds"
    std::string message;  // {0} and {1} stand for the places
    std::string array;
    std::string block, thread;
    std::vector<Where> places;
};

inline Explanation (*explain)(const void* address) = nullptr;  // null without a program

class Reports {
  public:
    // Largest number of different reports: a kernel that is wrong everywhere repeats the same ones.
    static constexpr size_t MOST = 64;

    void add(const Report& report, uintptr_t base) {
        std::lock_guard lock(mutex_);
        if (all_.size() >= MOST || !seen_.insert(report.kind + report.array + places(report, base)).second) return;
        all_.push_back(line(report, base));
    }
    static std::string line(const Report& report, uintptr_t base) {
        return report.kind + US + report.message + US + report.array + US + report.block + US + report.thread + US
            + places(report, base) + RS;
    }
    bool empty() const { return all_.empty(); }
    std::string joined() const {
        std::string out;
        for (auto& report : all_) out += report;
        return out;
    }

  private:
    static constexpr char US = '\x1f', RS = '\x1e';
    static std::string places(const Report& report, uintptr_t base) {
        std::string out;
        for (auto& place : report.places) {
            if (place.file)
                out += std::string("@") + place.file + ":" + std::to_string(place.line) + ":"
                + std::to_string(place.column) + US;
            else out += "+" + std::to_string(uintptr_t(place.address) - base) + (place.callers ? place.callers : "")
                + US;
        }
        return out;
    }
    std::mutex mutex_;
    std::set<std::string> seen_;
    std::vector<std::string> all_;
};

}  // namespace emu
