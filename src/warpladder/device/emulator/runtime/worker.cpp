// An OS thread that runs blocks (worker.h): it starts CUDA threads, switches between them, and ends a launch.
#include "worker.h"

#include <cfenv>

#include "guard.h"

namespace emu {

thread_local Thread* current = nullptr;

void Worker::work(Run& now) {
    run = &now;
    worker_here = this;
    Watch watch(*this);
#ifdef EMU_CHECK
    stacks.begin_launch();
#endif
    ++now.active;
    idle = 0;
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);  // the same rounding on every thread, even if a library has changed it
#ifdef EMU_GUARD
    Guard guard(now);
    if (sigsetjmp(guard.back, 0)) guard.leave_handler(), now.fail(guard.report());
    else run_units(now);
#else
    run_units(now);
#endif
    progress();
    fesetenv(&before);
    current = nullptr;
    --now.active;
}

static void* begun(Stack& stack) {
    return prepared(stack, [] { worker_here->begin_stack(); });
}

void Worker::run_seated() {
    turn = 0;
    stacks.reset();
    beginning = next();
    current = beginning;
    entered = stacks.take();
    if (!entered) return run->fail({"out of memory", "no memory for a thread's stack", "", "", "", {}});
    switch_stacks(main, main_context, *entered, begun(*entered));
}

void Worker::leave() {
    void* nowhere;
    switch_stacks(*here, nowhere, main, main_context);
    __builtin_unreachable();
}

void Worker::begin_stack() {
#ifdef EMU_ASAN
    const void* low;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &low, &size);
    if (!main.low) main.low = static_cast<char*>(const_cast<void*>(low)), main.size = size;
#endif
    Stack* mine = here = entered;
    for (Thread* thread = beginning;; thread = next()) {
        if (!thread) {
            if (unfinished == 0) leave();
            thread = stuck();
        }
        current = thread;
        thread->state = State::ready;
        if (thread->stack) {  // it has waited, on its own stack
            stacks.give(mine);
            void* nowhere;
            switch_stacks(*mine, nowhere, *thread->stack, thread->context);
            __builtin_unreachable();
        }
        run->launch.kernel(run->launch.arguments);
        finish(self());
        mine = here;
    }
}

inline Thread* Worker::next() {
    if (resident == 1) return blocks[0]->next();
    for (size_t tried = 0; tried < resident; ++tried) {
        if (Thread* thread = blocks[turn]->next()) return thread;
        turn = turn + 1 == resident ? 0 : turn + 1;
    }
    return nullptr;
}

inline __attribute__((always_inline)) void Worker::suspend(Thread& me) {
    Thread* thread = next();
    if (!thread) [[unlikely]] thread = stuck();
    current = thread;
    if (thread != &me) {
        Stack* to = thread->stack;
        void* context = thread->context;
        if (!to) [[unlikely]] {
            to = entered = stacks.take();
            beginning = thread;
            if (!to) current = &me, no_stack();
            context = begun(*to);
        }
        thread->state = State::ready;
        me.stack = here;
        switch_stacks(*me.stack, me.context, *to, context);
        here = me.stack;
    }
    me.state = State::ready;
}

void Worker::finish(Thread& me) {
    Block& block = block_of(me);
    progress();
    if (block.calm) {  // all of its threads have run
        block.live = 0;
        leftovers(block);
        --unfinished;
        return;
    }
    me.state = State::done;
    Warp& warp = block.warps[me.linear / 32];
    warp.done |= 1u << (me.linear & 31);
    if (--block.live == 0) {
        leftovers(block);
        --unfinished;
        return;
    }
    if (block.arrived && block.arrived == block.live) {
        if (!block.hurt)
            left_early(block, "some threads leave the kernel without reaching a barrier at which others wait");
        complete_barrier(block);
    }
    if (warp.waiting) {  // they may wait for this lane alone
        unsigned first = me.linear & ~31u;
        for (unsigned left = warp.waiting; left; left &= left - 1) {
            Thread& other = block.threads[first + unsigned(__builtin_ctz(left))];
            if (warp.waiting >> (other.linear & 31) & 1) complete(block, other, nullptr, other.combine);
        }
    }
}

// Waits for the other lanes of the warp, as long as anything else can go on; returns those that have come to this line.
unsigned Worker::converge(Thread& me, const char* file, int line) {
    stirred(me);
    me.state = State::converging;
    me.waits = "coalesced_threads", me.file = file, me.line = line;
    suspend(me);
    return me.mask;
}

// Lets lanes that converge go on, in each warp those at one line; false if there are none.
bool Worker::release_converged() {
    bool any = false;
    for (size_t i = 0; i < resident; ++i) {
        Block& block = *blocks[i];
        if (block.calm) continue;
        for (unsigned first = 0; first < block.count; first += 32) {
            Thread* leader = nullptr;
            unsigned mask = 0, end = std::min(first + 32, block.count);
            for (unsigned j = first; j < end; ++j) {
                Thread& thread = block.threads[j];
                if (thread.state != State::converging) continue;
                if (!leader) leader = &thread;
                if (thread.line == leader->line && (thread.file == leader->file || !strcmp(thread.file, leader->file)))
                    mask |= 1u << (j - first);
            }
            for (unsigned left = mask; left; left &= left - 1) {
                Thread& thread = block.threads[first + unsigned(__builtin_ctz(left))];
                thread.mask = mask;
                block.wake(thread);
            }
            any |= mask != 0;
        }
    }
    if (any) progress();
    return any;
}

// No thread can run and blocks are unfinished: a grid barrier is complete, or this is a deadlock.
Thread* Worker::stuck() {
    if (release_converged()) return next();
    bool at_grid = true;
    for (size_t i = 0; i < resident; ++i) at_grid &= blocks[i]->grid_arrived == blocks[i]->count;
    if (!at_grid) fail(deadlock(*this));
    progress();
    if (!run->gate.arrive()) leave();
    for (size_t i = 0; i < resident; ++i) {
        blocks[i]->grid_arrived = 0;
        blocks[i]->release();
    }
    checker.grid_barrier();
    return next();
}

void Worker::yield(Thread& me) {
    if (run->failed) leave();
    if (++idle >= 1000 && !release_converged()) {
        auto now = std::chrono::steady_clock::now();
        if (idle == 1000) ++run->idle;
        bool all_idle = run->idle >= run->active;
        if (idle == 1000 || !all_idle) idle_since = now, turns = 0, turns_before = run->turns;
        ++turns, ++run->turns;
        if (all_idle && seat_more(me)) {
            std::this_thread::yield();
            return progress(), give_way(me);
        }
        // the others' threads had their turns too, even if another process has their processor
        bool all_tried = run->turns - turns_before - turns >= 20000ull * (run->active - 1);
        if (now - idle_since > std::chrono::milliseconds(200) && all_tried) fail(deadlock(*this));
        std::this_thread::yield();
    }
    give_way(me);
}

void Worker::give_way(Thread& me) {
    if (run->failed) leave();
    stirred(me).rest(me);
    turn = turn + 1 == resident ? 0 : turn + 1;
    suspend(me);
}

void Worker::progress() {
    if (idle >= 1000) --run->idle;
    idle = 0;
}

void Worker::no_stack() {
    fail({"out of memory", "no memory for the stacks of so many waiting threads", "", "", "", {}});
}

void Worker::fail(Report report) {
    if (run->ended_threads.empty()) run->fail(report);
    else run->failed = true, run->gate.fail();  // what the others lack from a thread that ended is no fault of theirs
    report = {};  // nothing on this stack is destroyed any more
    leave();
}

void Worker::warn(Report report) { run->warn(report); }

void Worker::end_thread(Report report) {
    if (combining) fail(std::move(report));  // for all lanes of a warp
    if (run->ended_threads.insert(report.kind + report.array).second) warn(report);
    report = {};  // nothing on this stack is destroyed any more
    Thread& me = self();
    stirred(me).hurt = true;
    finish(me);
    Thread* thread = next();
    if (!thread) {
        if (unfinished == 0) leave();
        thread = stuck();
    }
    current = thread;
    Stack *mine = here, *to = thread->stack;
    void *context = thread->context, *nowhere;
    if (!to) {
        to = entered = stacks.take();
        beginning = thread;
        if (!to) no_stack();
        context = begun(*to);
    }
    thread->state = State::ready;
    stacks.give(mine);
    switch_stacks(*mine, nowhere, *to, context);
    __builtin_unreachable();
}

}  // namespace emu
