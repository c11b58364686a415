// Products of a warpgroup (wgmma), called by kernel threads. They are computed when the warpgroup waits for them, the
// latest moment that a GPU may choose: later changes of their factors are used, and sums read before have their old
// values. They add as one warp's products do (tensor.cpp).
#include "worker.h"

namespace emu {

constexpr unsigned THREADS = 128, ROWS = 64;

static Products& products_of(Thread& me, const char* file, int line) {
    Block& block = block_of(me);
    if (me.linear >= block.count / THREADS * THREADS)
        worker_of(me).fail({"warpgroup", "wgmma at {0} needs whole warpgroups of 128 threads, and the block has "
            + std::to_string(block.count), "", text(block.index), text(me.index), {{file, line}}});
    if (block.products.empty()) {
        block.products.resize(block.count);
        block.warpgroups.resize(block.count / THREADS);
#ifdef EMU_CHECK
        for (auto& group : block.warpgroups) group.engine = checker.engine();
#endif
    }
    return block.products[me.linear];
}

[[noreturn]] static void refuse_products(Thread& me, const char* kind, const std::string& why,
    std::vector<Where> places) {
    worker_of(me).fail({kind, name_of(me) + " " + why, "", text(me.block->index), text(me.index), std::move(places)});
}

// A factor in shared memory, from its descriptor: rows of 128 or 64 bytes, with swizzled pieces of 16; or of 16 bytes.
struct Factor {
    uint64_t start, leading, stride;
    unsigned row;   // bytes of a row
    bool down;      // terms go down the rows, and not along them
    unsigned size;  // bytes of a number

    Factor(uint64_t bits, bool down_, unsigned size_) : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
        row(bits >> 62 == 1 ? 128 : bits >> 62 == 2 ? 64 : 16), down(down_), size(size_) {}
    // Offset in the block's shared memory of a term of a row of A, or of a column of B.
    unsigned at(unsigned line, unsigned term) const {
        if (row == 16)  // eight rows of 16 bytes
            return unsigned(down ? start + line / 8 * stride + line % 8 * size + term / 8 * leading + term % 8 * 16
                : start + line / 8 * stride + line % 8 * 16 + term * size / 16 * leading + term * size % 16);
        uint64_t offset = down ? start + line / 64 * leading + term / 8 * stride + term % 8 * 128 + line % 64 * size
            : start + line / 8 * stride + line % 8 * row + term * size;
        return row == 128 ? swizzled(unsigned(offset)) : unsigned(offset ^ (offset >> 3 & 0x30));
    }
};

static unsigned size_of(const Product& product) { return product.kind == 2 ? 4 : 2; }

static float half_number(uint32_t bits) {
    float sign = bits & 0x8000 ? -1.0f : 1.0f;
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * float(fraction) * 0x1p-24f;
    return std::bit_cast<float>(bits << 16 & 0x80000000 | (exponent + 112) << 23 | fraction << 13);
}

static float number(const char* at, int kind) {
    uint32_t bits = 0;
    memcpy(&bits, at, kind == 2 ? 4 : 2);
    return kind == 0 ? half_number(bits) : std::bit_cast<float>(kind == 1 ? bits << 16 : bits & 0xffffe000);
}

// One step of all 128 threads from number `first` on.
EMU_WITH_VECTORS static void multiply_group(Block& block, unsigned first, size_t step) {
    const Product& one = block.products[first].begun[step];
    unsigned depth = 32 / size_of(one);
    int lowest = one.kind == 0 ? -14 : -126;
    std::vector<double> a(ROWS * depth), b(one.columns * depth);
    std::vector<int> ea(a.size()), eb(b.size());
    std::vector<char> some_a(ROWS), some_b(one.columns);  // by line: 1 if it has a number that is not 0
    bool finite = true;
    auto fetch = [&](std::vector<double>& to, std::vector<int>& its, std::vector<char>& some,
        const Factor& factor) {
        for (unsigned line = 0, i = 0; i < to.size(); ++line)
            for (unsigned term = 0; term < depth; ++term, ++i) {
                float x = number(block.shared + factor.at(line, term), one.kind);
                to[i] = x, its[i] = exponent(x, lowest);
                finite &= std::isfinite(x), some[line] |= x != 0;
            }
    };
    fetch(a, ea, some_a, Factor(one.a, one.turned_a, size_of(one)));
    fetch(b, eb, some_b, Factor(one.b, one.turned, size_of(one)));
    for (unsigned thread = 0; thread < THREADS; ++thread) {
        const Product& its = block.products[first + thread].begun[step];
        unsigned warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
        for (unsigned i = 0; i < one.columns / 2; ++i) {
            unsigned row = 16 * warp + g + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * t + i % 2;
            float before = its.add ? its.d[i] : 0;
            if (finite && !(some_a[row] && some_b[column])) {
                its.d[i] = before + 0.0f;  // -0 becomes 0
                continue;
            }
            const double *left = &a[row * depth], *right = &b[column * depth];
            if (finite && std::isfinite(before)) {
                its.d[i] = added(before, left, right, &ea[row * depth], &eb[column * depth], int(depth));
                continue;
            }
            double sum = before;
            for (unsigned k = 0; k < depth; ++k) sum += left[k] * right[k];
            its.d[i] = std::isfinite(sum) ? cut_off(sum) : float(sum);
        }
    }
}

// All threads of a warpgroup wait: they must have begun the same products, and all groups but the last `pending` are
// computed now.
static void finish_group(Thread& me, unsigned pending) {
    Block& block = block_of(me);
    unsigned first = me.linear / THREADS * THREADS;
    const Products& one = block.products[first];
    for (unsigned thread = first; thread < first + THREADS; ++thread) {
        Thread& other = block.threads[thread];
        const Products& its = block.products[thread];
        auto differ = [&](const std::string& how, Where a, Where b) {
            refuse_products(other, "warpgroup", "and the first thread of its warpgroup " + how, {a, b}); };
        if (other.line != block.threads[first].line)
            differ("wait for wgmma at {0} and {1}", {other.file, other.line},
            {block.threads[first].file, block.threads[first].line});
        if (its.groups != one.groups || its.begun.size() != one.begun.size())
            differ("have begun other products when they wait for wgmma at {0}", {other.file, other.line}, {});
        for (size_t step = 0; step < its.begun.size(); ++step) {
            const Product &p = its.begun[step], &q = one.begun[step];
            if (p.line != q.line || p.a != q.a || p.b != q.b || p.columns != q.columns || p.kind != q.kind
                || p.turned != q.turned || p.turned_a != q.turned_a || p.add != q.add)
                differ("call wgmma with other factors, at {0} and {1}", {p.file, p.line}, {q.file, q.line});
        }
    }
    unsigned done = one.groups.size() > pending ? unsigned(one.groups.size()) - pending : 0, steps = 0;
    for (unsigned i = 0; i < done; ++i) steps += one.groups[i];
    for (unsigned step = 0; step < steps; ++step) multiply_group(block, first, step);
    for (unsigned thread = first; thread < first + THREADS; ++thread) {
        Products& its = block.products[thread];
        its.begun.erase(its.begun.begin(), its.begun.begin() + steps);
        its.groups.erase(its.groups.begin(), its.groups.begin() + done);
        its.committed -= steps, its.ended += done;
#ifdef EMU_CHECK
        checker.acquire(block.threads[thread], nullptr, nullptr, block.warpgroups[first / THREADS].engine, its.ended);
#endif
    }
}

void Worker::products(Thread& me, unsigned pending, const char* file, int line) {
    Block& block = stirred(me);
    products_of(me, file, line);
    Warpgroup& group = block.warpgroups[me.linear / THREADS];
    me.waits = "wgmma_wait, for the other threads of its warpgroup,", me.file = file, me.line = line;
    if (++group.arrived < THREADS) {
        me.state = State::at_products;
        return suspend(me);
    }
    group.arrived = 0;
    progress();
    finish_group(me, pending);
    unsigned first = me.linear / THREADS * THREADS;
    for (unsigned thread = first; thread < first + THREADS; ++thread)
        if (&block.threads[thread] != &me) block.wake(block.threads[thread]);
}

// Products without a wait when a block ends.
void unfinished_products(Block& block) {
    for (unsigned thread = 0; thread < block.products.size(); ++thread)
        if (!block.products[thread].begun.empty()) {
            const Product& product = block.products[thread].begun.front();
            refuse_products(block.threads[thread], "unfinished product",
                "leaves the kernel without having waited for the product that it began at {0}",
                {{product.file, product.line}});
        }
}

}  // namespace emu

EMU_EXPORT void emu_products(float* d, uint64_t a, uint64_t b, unsigned columns, int kind, int turned, int add,
    const char* file, int line) {
    Thread& me = self();
    Block& block = block_of(me);
    Products& mine = products_of(me, file, line);
    Product product{d, a, b, columns, kind, (turned & 2) != 0, (turned & 1) != 0, add != 0, file, line};
    auto known = [](uint64_t bits, bool down) { return bits >> 62 < 2 || (bits >> 62 == 2 && !down); };
    if (!known(a, product.turned_a) || !known(b, product.turned))
        refuse_products(me, "warpgroup", "calls wgmma at {0} with a descriptor of another swizzle: the emulator has "
            "those of 128 bytes, none and, for terms along the rows, of 64", {{file, line}});
    if (!mine.fenced)
        refuse_products(me, "wgmma fence",
            "calls wgmma at {0} with sums that it has touched since the last wgmma_begin, or "
            "without a wgmma_begin: the tensor cores may not see the values of these registers", {{file, line}});
    mine.begun.push_back(product);
    mine.sums = reinterpret_cast<const char*>(d), mine.bytes = columns * 2;
#ifdef EMU_CHECK
    if (me.linear % 32 == 0) {
        const void* code = __builtin_return_address(0);
        unsigned depth = 32 / size_of(product), warp = me.linear / 32 % 4;
        Factor of_a(a, product.turned_a, size_of(product)), of_b(b, product.turned, size_of(product));
        uint32_t engine = block.warpgroups[me.linear / THREADS].engine,
            moment = mine.ended + uint32_t(mine.groups.size());
        if (product.turned_a)
            for (unsigned term = 0; term < depth; ++term)
                for (unsigned row = 16 * warp; row < 16 * warp + 16; row += 8)
                    checker.engine_reads(me, block.shared + of_a.at(row, term), 16, engine, moment, code);
        else for (unsigned row = 16 * warp; row < 16 * warp + 16; ++row)
            for (unsigned piece = 0; piece < 2; ++piece)
                checker.engine_reads(me, block.shared + of_a.at(row, piece * depth / 2), 16, engine, moment, code);
        if (product.turned)  // eight columns are adjacent
            for (unsigned term = 0; term < depth; ++term)
                for (unsigned column = 0; column < columns; column += 8)
                    checker.engine_reads(me, block.shared + of_b.at(column, term), 16, engine, moment, code);
        else
            for (unsigned column = 0; column < columns; ++column)
                for (unsigned piece = 0; piece < 2; ++piece)
                    checker.engine_reads(me, block.shared + of_b.at(column, piece * depth / 2), 16, engine, moment,
                    code);
    }
#endif
    (void)block;
}

EMU_EXPORT void emu_products_begin(const char* file, int line) { products_of(self(), file, line).fenced = true; }

EMU_EXPORT void emu_products_commit(const char* file, int line) {
    Products& mine = products_of(self(), file, line);
    mine.groups.push_back(unsigned(mine.begun.size()) - mine.committed);
    mine.committed = unsigned(mine.begun.size());
}

EMU_EXPORT void emu_products_wait(unsigned pending, const char* file, int line) {
    worker_of(self()).products(self(), pending, file, line); }
