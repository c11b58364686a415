// Marks of the bytes of global memory that were written, by the host or by a kernel.
#ifdef EMU_CHECK
#include "worker.h"

namespace emu {

// Marks of the written bytes from an address on, or null where there is no allocation of the checker's. bytes: of the
// range, which is cut where the allocation ends.
unsigned char* Checker::marks(uintptr_t address, size_t& bytes) {
    Allocation* memory = holding(address);
    if (!memory) return nullptr;
    bytes = std::min(bytes, memory->low + memory->bytes - address);
    return static_cast<unsigned char*>(memory->written->at()) + (address - memory->low);
}

void Checker::written(uintptr_t address, size_t bytes) {
    if (unsigned char* mark = marks(address, bytes)) memset(mark, 1, bytes);
}

// Marks the bytes between members as such, by 2: padding has a 1 for each of an element's.
void Checker::padded(uintptr_t address, size_t bytes, const unsigned char* padding, size_t element) {
    unsigned char* mark = marks(address, bytes);
    for (size_t at = 0; mark && at + element <= bytes; at += element)
        for (size_t byte = 0; byte < element; ++byte)
            if (padding[byte]) mark[at + byte] = 2;
}

// Number of elements of an array without any written byte, the first of them, and the number of gaps that they make.
size_t Checker::unwritten(uintptr_t address, size_t bytes, size_t element, size_t& first, size_t& gaps) {
    const unsigned char* written = marks(address, bytes);
    if (!written) return 0;
    size_t count = 0;
    bool is_gap = false;
    for (size_t at = 0; at < bytes; at += element) {
        bool was_gap = std::exchange(is_gap, !memchr(written + at, 1, std::min(element, bytes - at)));
        if (is_gap && count++ == 0) first = at / element;
        gaps += is_gap && !was_gap;
    }
    return count;
}

// Bytes of the array's cells that the last launch has touched, neighbours of one kind in one range.
void Checker::touched(uintptr_t address, size_t bytes, void (*note)(void*, uintptr_t, uintptr_t, int), void* to) {
    Allocation* memory = holding(address);
    if (!memory) return;
    const Cells& cells = *memory->cells;
    uintptr_t low = 0, high = 0;
    int how = -1;
    for (uintptr_t at = address; at < address + bytes; at += cells.grain()) {
        const Cell& cell = cells[at];
        if (cell.stamp < begun_) continue;
        bool is_write = cell.write.thread, is_atomic = cell.write.atomic >= 1 && cell.write.atomic <= 3;
        unsigned mask = is_write ? cell.written : unsigned(cell.read[0].bytes | cell.read[1].bytes);
        if (!mask) continue;
        int kind = is_write ? 1 + is_atomic : 0;
        uintptr_t first = at + unsigned(__builtin_ctz(mask)), last = at + 32 - unsigned(__builtin_clz(mask));
        if (kind != how || first != high) {
            if (how >= 0) note(to, low, high, how);
            low = first, how = kind;
        }
        high = last;
    }
    if (how >= 0) note(to, low, high, how);
}

// A copy brings its source's marks; what comes from memory of others counts as written.
void Checker::copied(uintptr_t to, uintptr_t from, size_t bytes) {
    unsigned char* target = marks(to, bytes);
    if (!target) return;
    size_t known = bytes;
    const unsigned char* source = marks(from, known);
    if (!source) known = 0;
    else memmove(target, source, known);
    memset(target + known, 1, bytes - known);
}

// Where launches after a moment have read a variable of the module that no kernel has written; 0 for nowhere. now: this
// moment.
uint32_t Checker::variable_read(uintptr_t address, size_t bytes, uint32_t since, uint32_t& now) {
    now = stamp_;
    uint32_t code = 0;
    if (address < module_.low || address + bytes > module_.high) return 0;
    for (uintptr_t at = address & ~uintptr_t(3); at < address + bytes; at += 4) {
        const Cell& cell = (*module_.cells)[at];
        if (cell.write.thread) return 0;
        if (cell.stamp > since && cell.read[0].thread) code = cell.read[0].code;
    }
    return code;
}

}  // namespace emu
#endif
