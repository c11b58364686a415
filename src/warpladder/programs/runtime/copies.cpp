// Copies and fills, checked against the allocations on both sides. A wrong one is reported and copies nothing.
#include <cstring>

#include "host.h"

namespace emu {

static auto& symbols = *new std::map<uintptr_t, size_t>;  // bytes of __device__ variables whose address was taken

static bool is_in_symbol(const void* pointer, size_t bytes) {
    auto after = symbols.upper_bound(uintptr_t(pointer));
    if (after == symbols.begin()) return false;
    auto [low, its] = *std::prev(after);
    return uintptr_t(pointer) + bytes <= low + its;
}

// Reason why an array of the host has too few bytes, or "".
static std::string too_short(const void* pointer, size_t bytes, const char* role, HostArray& found) {
    HostArray array = host_array(pointer);
    if (array.name.empty() || array.offset + bytes <= array.bytes) return "";
    found = array;
    std::string start = array.offset ? "from byte " + std::to_string(array.offset) + " on " : "";
    return std::to_string(bytes) + " bytes " + start
        + "are more than the " + role + " has: " + array.name + " "
        + std::to_string(array.bytes) + " bytes" + (array.code ? " (allocated at {1})" : "");
}

// Reason why a range of bytes cannot be one side of a copy, or "". found: array that is too short, with {1} for its
// allocation
static std::string wrong_side(const void* pointer, size_t bytes, bool of_device, const char* role, HostArray& found) {
    if (!pointer) return std::string("the ") + role + " is null";
    Allocation* a = find(pointer);
    std::string whose = std::string("the ") + role + " ";
    if (!a) {
        if (of_device && is_in_symbol(pointer, bytes)) return "";
        if (Allocation* near = nearest(pointer); near && near->mapped)
            return whose + "lies " + explained(pointer);
        if (of_device && is_in_program(pointer))
            return whose + "is a variable of the program: cudaMemcpyToSymbol and cudaMemcpyFromSymbol reach one with "
                "__device__ or __constant__";
        return of_device ? whose + "is a pointer of the host" : too_short(pointer, bytes, role, found);
    }
    if (a->freed && a->mapped) return whose + "is freed memory, " + explained(pointer);
    if (!of_device && a->type == cudaMemoryTypeDevice)
        return whose + "is " + described(*a) + ", and the direction makes it the host's";
    if (of_device && !a->mapped) return whose + "is a pointer of the host";
    if (uintptr_t(pointer) + bytes > a->high())
        return std::to_string(bytes) + " bytes " + (uintptr_t(pointer) == a->low ? "" : "from byte "
            + std::to_string(uintptr_t(pointer) - a->low) + " on ") + "are more than the " + role + " has: "
            + described(*a);
    return "";
}

static bool is_device(const void* pointer) {
    Allocation* a = find(pointer);
    return a && !a->freed && a->type == cudaMemoryTypeDevice;
}

// A count of elements where one of bytes is meant leaves most of an array as it was. It is a fault if the text of the
// call counts elements too; a part of an array can have that size by chance.
static void count_elements(const Allocation* a, const void* pointer, Bytes bytes, unsigned element, const char* call,
    Spot place) {
    if (a && bytes.of_pointer && bytes < a->bytes)
        report("problem", "bytes", std::string(call) + " at {0} takes sizeof of a pointer, " + std::to_string(bytes)
            + " bytes, and not the array's: " + described(*a), a->name, place);
    if (!a || element < 2 || bytes.counts_bytes || uintptr_t(pointer) != a->low || bytes * element != a->bytes) return;
    report(bytes.counts_elements ? "problem" : "remark", "bytes", std::string(call) + " at {0} takes "
        + std::to_string(bytes) + " bytes of " + described(*a) + ", which are " + std::to_string(bytes)
        + " elements of " + std::to_string(element) + " bytes: a number of elements where one of bytes is meant"
        + (bytes.counts_elements ? "" : ", unless only this part is"), a->name, place);
}

// Elements of a copy that nothing has written.
struct Gaps {
    size_t all, count = 0, first = 0, gaps = 0;
    size_t written() const { return all - count; }
};

// Reason why a launch that was to write all of an array has not, or "": threads store the same elements, or x and y of
// its grid are swapped, so that whole blocks have nothing to do while a part of each row or the last rows are missing.
[[maybe_unused]] static std::string wrong_place(const Allocation& a, const Gaps& g, size_t element) {
    const size_t x = size_t(a.grid.x) * a.block.x, y = size_t(a.grid.y) * a.block.y;
    const size_t block = size_t(a.block.x) * a.block.y * a.block.z;
    const std::string name = ": kernel " + a.writer + " at " + place_of(a.written_at.file, a.written_at.line);
    if (a.stored == a.threads * element && a.threads >= g.all && a.threads - g.all < block)
        return name + " has a thread for each element, and several threads store the same one";
    if (a.grid.y == 1 || a.grid.x == a.grid.y || a.grid.z > 1 || a.stored != g.written() * element) return "";
    const size_t row = g.gaps > 1 ? g.all / g.gaps : g.written() / y;  // its elements
    bool has_short_rows = g.gaps > 1 && g.first == x && g.written() == g.gaps * x && y >= g.gaps + a.block.y;
    bool has_few_rows = g.gaps == 1 && g.first == row * y && g.written() == g.first && x >= row + a.block.x;
    if (!row || g.all % row || (!has_short_rows && !has_few_rows)) return "";
    return name + " has " + std::to_string(x) + " x " + std::to_string(y) + " threads for "
        + std::to_string(g.all / row) + " rows of " + std::to_string(row) + ": x and y of its grid are swapped";
}

// Elements that nothing has written, in a copy to the host. It is a fault if each thread of the kernel wrote one, or
// the same number of them: its grid was rounded down; or if a thread for each was there. Else the program may know
// which elements count.
static void look_for_unwritten([[maybe_unused]] const Copy& c, [[maybe_unused]] Spot place) {
#ifdef EMU_CHECK
    Allocation* a = find(c.from);
    if (!a || a->freed || a->type != cudaMemoryTypeDevice) return;
    size_t element = c.width % a->element ? 1 : a->element;
    Gaps g{c.width / element * c.height};
    for (size_t row = 0; row < c.height; ++row) {
        size_t here = 0, found = emu_unwritten((char*)c.from + row * c.from_pitch, c.width, element, &here, &g.gaps);
        if (found && !g.count) g.first = row * (c.width / element) + here;
        g.count += found;
    }
    if (a->reached && uintptr_t(c.from) == a->low && c.width * c.height == a->bytes)
        report("problem", "unwritten", std::string(c.call) + " at {0} brings " + std::to_string(g.all) + " elements of "
            + described(*a) + ", and kernel " + a->writer + " at " + place_of(a->written_at.file, a->written_at.line)
            + " gets as many, but has " + std::to_string(a->reached) + " threads and changed as many: the "
            "number of blocks is rounded down", a->name, place);
    if (!g.count) return;
    if (!g.written() && a->writer.empty()) a->too_early = place;
    bool is_short = a->threads && g.written() && g.written() % a->threads == 0 && g.count < g.written();
    std::string why = is_short ? ": " + a->launch + " has " + std::to_string(a->threads) + " threads"
        : a->writer.empty() || uintptr_t(c.from) != a->low ? "" : wrong_place(*a, g, element);
    report(why.empty() ? "remark" : "problem", "unwritten", std::string(c.call) + " at {0} brings "
        + std::to_string(g.count) + " of " + std::to_string(g.all) + (element > 1 ? " elements of " : " bytes of ")
        + described(*a) + " that nothing has written, the first of them number " + std::to_string(g.first) + why,
        a->name, place);
#endif
}

// In the check mode what a copy brings counts as written.
static void note(const Copy& c, size_t row) {
    [[maybe_unused]] void* to = (char*)c.to + row * c.to_pitch;
#ifdef EMU_CHECK
    if (!find(to)) return;
    if (is_device(c.from)) emu_copied(to, (char*)c.from + row * c.from_pitch, c.width);
    else emu_written(to, c.width);
#endif
}

// A copy of all rows in one piece, as if nothing lay between them.
static void look_for_rows(const Allocation& a, const void* first, const Copy& c, Spot place) {
    if (a.rows < 2 || a.pitch == a.width || c.width != a.width * a.rows || uintptr_t(first) != a.low) return;
    report("problem", "copy", std::string(c.call) + " at {0} copies " + std::to_string(c.width)
        + " bytes in one piece, and the " + std::to_string(a.rows) + " rows of " + std::to_string(a.width)
        + " bytes in " + described(a) + " begin each " + std::to_string(a.pitch)
        + " bytes, its pitch: cudaMemcpy2D takes both", a.name, place);
}

}  // namespace emu

using namespace emu;

EMU_API emu_memcpy_host(const Copy& c, const char* file, int line) {
    Lock lock;
    if (returned(cudaSuccess) != cudaSuccess) return returned(cudaSuccess);
    if (!c.width || !c.height) return cudaSuccess;
    const bool is_one_row = c.height == 1 && (!c.to_pitch || !c.from_pitch);  // which needs no pitch
    if (!is_one_row && (c.width > c.to_pitch || c.width > c.from_pitch)) {
        report("problem", "copy", std::string(c.call) + " at {0} copies rows of " + std::to_string(c.width)
            + " bytes, and a pitch is " + std::to_string(std::min(c.to_pitch, c.from_pitch)), "", {file, line});
        return failed(cudaErrorInvalidPitchValue);
    }
    if (is_in_host_function(c.call, {file, line})) return cudaErrorNotPermitted;
    if (unsigned(c.kind) > cudaMemcpyDefault) return failed(cudaErrorInvalidMemcpyDirection);
    if (c.is_async && joins_captures(c.call, c.stream, {file, line})) return cudaErrorStreamCaptureImplicit;
    if (!c.is_async && spoils_captures(c.call, {file, line})) return cudaErrorStreamCaptureUnsupported;
    bool automatic = c.kind == cudaMemcpyDefault;
    bool to_device = automatic ? is_device(c.to)
        : c.kind == cudaMemcpyHostToDevice || c.kind == cudaMemcpyDeviceToDevice;
    bool from_device = automatic ? is_device(c.from)
        : c.kind == cudaMemcpyDeviceToHost || c.kind == cudaMemcpyDeviceToDevice;
    size_t to_bytes = c.to_pitch * (c.height - 1) + c.width, from_bytes = c.from_pitch * (c.height - 1) + c.width;
    HostArray array;
    std::string why = wrong_side(c.to, to_bytes, to_device, "target", array);
    if (why.empty()) why = wrong_side(c.from, from_bytes, from_device, "source", array);
    if (!why.empty()) {
        static const char* directions[] = {"host to host", "host to device", "device to host", "device to device",
            "any"};
        Allocation* a = find(c.to) ? find(c.to) : find(c.from);
        bool is_swapped = find(c.to) && !find(c.from) && c.kind == cudaMemcpyDeviceToHost
            || find(c.from) && !find(c.to) && c.kind == cudaMemcpyHostToDevice;
        report("problem", "copy", std::string(c.call) + " at {0}, " + directions[c.kind] + ": " + why
            + (is_swapped ? "; the pointers or the direction are swapped" : ""), a ? a->name : "", {file, line}, "",
            array.code);
        if (array.name.empty() || c.height > 1) return failed(cudaErrorInvalidValue);
        Copy part = c;  // a GPU goes on too
        part.width = array.bytes - array.offset;
        return emu_memcpy_host(part, file, line);
    }
    if (c.height == 1) {
        Allocation* a = to_device ? find(c.to) : find(c.from);
        count_elements(a, to_device ? c.to : c.from, c.width, c.element, c.call, {file, line});
        if (a) look_for_rows(*a, to_device ? c.to : c.from, c, {file, line});
    }
    if (from_device && !to_device) look_for_unwritten(c, {file, line});
    open_memory(true);
    copying = {file, line};
    for (size_t row = 0; row < c.height; ++row) {
        memmove((char*)c.to + row * c.to_pitch, (const char*)c.from + row * c.from_pitch, c.width);
        note(c, row);
    }
    copying = {};
    open_memory(false);
    copy_queued(c, !to_device, {file, line});
    return cudaSuccess;
}

EMU_API emu_memset_host(void* to, size_t pitch, int value, Bytes width, size_t height, unsigned element,
    const char* call, cudaStream_t stream, const char* file, int line) {
    Lock lock;
    if (returned(cudaSuccess) != cudaSuccess) return returned(cudaSuccess);
    if (!width || !height) return cudaSuccess;
    if (joins_captures(call, stream, {file, line})) return cudaErrorStreamCaptureImplicit;
    HostArray array;
    std::string why = wrong_side(to, pitch * (height - 1) + width, true, "target", array);
    if (!why.empty()) {
        report("problem", "copy", std::string(call) + " at {0}: " + why, find(to) ? find(to)->name : "", {file, line});
        return failed(cudaErrorInvalidValue);
    }
    if (height == 1) count_elements(find(to), to, width, element, call, {file, line});
    if ((element == 2 || element == 4 || element == 8) && value > 0 && value < 32)  // 127 and 63 make large numbers
        report("remark", "bytes", std::string(call) + " at {0} sets each byte to " + std::to_string(value)
            + ", and not each number of " + std::to_string(element) + " bytes", find(to) ? find(to)->name : "",
            {file, line});
    open_memory(true);
    for (size_t row = 0; row < height; ++row) {
        memset((char*)to + row * pitch, value, width);
#ifdef EMU_CHECK
        emu_written((char*)to + row * pitch, width);
#endif
    }
    open_memory(false);
    fill_queued({to, nullptr, pitch, 0, width, height, cudaMemcpyDefault, element, call, true, stream}, {file, line});
    return cudaSuccess;
}

namespace emu {
struct LateVariable {
    const char* place;
    size_t bytes;
    uint32_t code, filled;  // the line that has read it, and the moment in which it was filled
    Spot spot;
};
static auto& late = *new std::vector<LateVariable>;

// The first contents of a variable of the device that launches have read while it held zeros.
static void fills(const void* symbol, const char* place, size_t bytes, Spot spot) {
    static auto& filled = *new std::set<const void*>;
    if (!filled.insert(symbol).second || std::any_of(place, place + bytes, [](char byte) { return byte; })) return;
    uint32_t now = 0, code = emu_variable_read(place, bytes, 0, &now);
    if (code) late.push_back({place, bytes, code, now, spot});
}

// What the host has filled of a variable of the device, from its first to its last byte, by its first such call.
struct FilledPart {
    size_t bytes, low, high;
    Spot spot;
};
static auto& filled_parts = *new std::map<const char*, FilledPart>;

// A part that nothing has filled and that a kernel has read: zeros, which are seldom meant.
static void look_for_rest(const char* symbol, const FilledPart& part) {
    for (auto [low, high] : {std::pair{size_t(0), part.low}, {(part.high + 3) / 4 * 4, part.bytes}}) {
        uint32_t now = 0;
        if (low >= high || std::any_of(symbol + low, symbol + high, [](char byte) { return byte; })) continue;
        const uint32_t code = emu_variable_read(symbol + low, high - low, 0, &now);
        const size_t filled = part.high - part.low;
        const bool is_unit = filled == sizeof(void*) || filled * 4 == part.bytes || filled * 8 == part.bytes;
        if (!code) continue;
        report(is_unit ? "problem" : "remark", "unfilled", "cudaMemcpyToSymbol at {0} fills " + std::to_string(filled)
            + " of the " + std::to_string(part.bytes) + " bytes of a variable, and a kernel reads others at {1}: it "
            "finds zeros", "", part.spot, "", code);
    }
}
void late_variables() {
    for (auto& [symbol, part] : filled_parts) look_for_rest(symbol, part);
    for (const LateVariable& each : late) {
        uint32_t now;
        if (!emu_variable_read(each.place, each.bytes, each.filled, &now))
            report("problem", "unfilled", "cudaMemcpyToSymbol at {0} fills a variable after the launches that read it, "
                "at {1}: they found zeros", "", each.spot, "", each.code);
    }
}
}  // namespace emu

EMU_EXPORT void emu_note_symbol(const void* symbol, size_t bytes) {
    Lock lock;
    symbols[uintptr_t(symbol)] = bytes;
}
EMU_API emu_symbol(const void* symbol, size_t bytes, unsigned element, size_t offset, void* other, int to_symbol,
    cudaMemcpyKind kind, Bytes count, const char* file, int line) {
    Lock lock;
    if (returned(cudaSuccess) != cudaSuccess) return returned(cudaSuccess);
    bool of_device = kind == cudaMemcpyDeviceToDevice || (kind == cudaMemcpyDefault && is_device(other));
    HostArray array;
    std::string why = offset + count > bytes
        ? std::to_string(offset + count) + " bytes are more than the variable's " + std::to_string(bytes)
        : wrong_side(other, count, of_device, to_symbol ? "source" : "target", array);
    if (!why.empty()) {
        report("problem", "copy", std::string(to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol") + " at {0}: "
            + why, "", {file, line}, "", array.code);
        return failed(cudaErrorInvalidValue);
    }
    if (count.counts_elements && element > 1 && count * element == bytes)
        report("problem", "bytes", std::string(to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol")
            + " at {0} takes " + std::to_string(count) + " of the variable's " + std::to_string(bytes)
            + " bytes: a number of elements where one of bytes is meant", "", {file, line});
    if (count.of_pointer && count < bytes)
        report("problem", "bytes", std::string(to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol")
            + " at {0} takes sizeof of a pointer, " + std::to_string(count) + " bytes, and not the variable's "
            + std::to_string(bytes), "", {file, line});
    const bool is_named = count.of_pointer || (count.counts_elements && count * element == bytes);
    open_memory(true);
    char* place = (char*)symbol + offset;
    copying = {file, line};
    if (to_symbol) {
        fills(symbol, place, count, {file, line});
        auto [part, _] = filled_parts.try_emplace((const char*)symbol, FilledPart{bytes, offset, offset, {file,
            line}});
        part->second.low = is_named ? 0 : std::min(part->second.low, offset);
        part->second.high = is_named ? bytes : std::max(part->second.high, offset + count);
    }
    if (to_symbol) memcpy(place, other, count);
    else memcpy(other, place, count);
    copying = {};
    open_memory(false);
    if (to_symbol && find(other)) find(other)->is_read = true;
    if (!to_symbol) host().are_results_read = true;
    host_waits(nullptr);
    return cudaSuccess;
}
