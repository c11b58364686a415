// Barriers in shared memory that count arrivals, as functions. A token is the number of a phase.
#pragma once
#include "../emulator.h"

using __mbarrier_t = unsigned long long;
using __mbarrier_token_t = unsigned long long;

inline unsigned __mbarrier_maximum_count() { return (1u << 20) - 1; }
inline void __mbarrier_init(__mbarrier_t* b, unsigned count, EMU_HERE) { emu_phase_init(b, count, file, line); }
inline void __mbarrier_inval(__mbarrier_t*) {}
inline __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* b, EMU_HERE) {
    return emu_phase_arrivals(b, 1, 0, file, line); }
inline __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* b, EMU_HERE) {
    const __mbarrier_token_t phase = emu_phase_number(b, file, line);
    return emu_phase_drop(b, file, line), phase;
}
inline bool __mbarrier_test_wait(__mbarrier_t* b, __mbarrier_token_t token, EMU_HERE) {
    return emu_phase_ended(b, unsigned(token), file, line) != 0; }
inline bool __mbarrier_try_wait(__mbarrier_t* b, __mbarrier_token_t token, unsigned, EMU_HERE) {
    return emu_phase_ended(b, unsigned(token), file, line) != 0; }
inline bool __mbarrier_try_wait_parity(__mbarrier_t* b, bool parity, unsigned, EMU_HERE) {
    return emu_phase_wait(b, parity, file, line), true; }
inline bool __mbarrier_test_wait_parity(__mbarrier_t* b, bool parity, EMU_HERE) {
    return emu_phase_wait(b, parity, file, line), true; }
