// Threads that wait for others by reading the same memory repeatedly must let them run. Kernel threads call this.
#include "worker.h"

namespace emu {

void poll(Thread& me, const void* address, unsigned size, const void* code) {
    uint64_t found = emu_load(address, size);
    if (me.polled == address && me.found == found) {
        me.polls_at = code;
        if (++me.polls % 64 == 0) worker_here->yield(me);
    } else {
        if (me.polls >= 64) worker_here->progress();
        me.polled = address, me.found = found, me.polls = 0;
        if (++me.reads % 1024 == 0) worker_here->give_way(me);
    }
}

}  // namespace emu

#ifdef EMU_ASAN
// Next to AddressSanitizer g++ has no call-outs before volatile accesses. In sources with some it calls this in each
// basic block, and a thread that has run many lets others run: it may poll.
EMU_EXPORT void __sanitizer_cov_trace_pc() {
    if (!emu::current) return;
    emu::Worker& worker = *emu::worker_here;
    if (!worker.combining && ++worker.basic_blocks % 1024 == 0) worker.give_way(emu::self());
}
#endif
