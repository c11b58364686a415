// Work of a library on the device: a launch of one thread, so that its accesses are watched as a kernel's are.
#pragma once
#include <stdexcept>

#include "launch.h"

// A call of an algorithm that asks for the bytes of its temporary memory, or one that has it and works.
// A number that a library's function refuses: it has to be at least `least`.
EMU_EXPORT void emu_too_small(const char* call, const char* name, long long number, long long least, const char* file,
    int line);
EMU_EXPORT void emu_asked(const char* name, const void* temporary, const char* file, int line);

namespace emu {

EMU_UNSEEN inline bool in_kernel() { return current != nullptr; }

// Runs work() on the device, in the order of the default stream. name: of the library's function, for reports.
template <class F> void on_device(const char* name, F work, const char* file, int line, cudaStream_t stream = 0) {
    if (in_kernel()) return work();
    Config config(1, 1, 0, stream, file, line);
    config.is_library = true;
    deduced([](auto& f) { f(); }, name, 0, config, work);
}

// Array on the device for the time of a call.
template <class T> class Temporary {
  public:
    T* data = nullptr;
    Temporary(size_t count, const char* file, int line) {
        if (count) emu_malloc((void**)&data, count * sizeof(T), cudaMemoryTypeDevice,
            {"temporary memory", sizeof(T)}, file, line);
    }
    ~Temporary() { if (data) cudaFree(data); }
    Temporary(const Temporary&) = delete;
};

}  // namespace emu
