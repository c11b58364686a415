"""Tiles of a phase's matrix product, by multiply-adds or on tensor cores: shapes, shared memory, estimated cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

#: Threads of a block, as THREADS of panel.cuh.
THREADS = 256

#: Cycles until a block's first load from L2 has arrived and its tile is stored, whatever the tile's size.
LATENCY = 1500

#: Bytes that the L2 cache delivers in a cycle to all multiprocessors, and to one at most, as copies of `PhaseTile`
#: reach them.
L2_BYTES, L2_BYTES_EACH = 1600, 26

#: Multiply-adds of a multiprocessor in a cycle that tiles of `PhaseTile` reach.
FMAS = 50

#: Cycles of a piece of k beyond its loads and multiply-adds, and from one piece to the next at least: its copies are on
#: their way while one other piece is computed with.
PIECE, PIECE_LATENCY = 200, 1000

#: Cycles of a tile's biases that are computed separately.
BIAS = 1200

#: Numbers of k of a piece, and pieces in shared memory at a time, at most.
DEPTHS, STAGES = (4, 8, 16, 32, 64, 128, 256, 512, 1024), 3

#: Bytes in a cycle that all multiprocessors get, and one of them at most, if a tile's pieces are requested together.
ALL_AT_ONCE, ALL_AT_ONCE_EACH = 5800, 45

#: Cycles of eight numbers of k of one of eight warps on tensor cores, and of each product of 16 x 8 x 8 numbers.
EIGHT, MMA = 11.4, 1.7

#: Numbers of k of a piece of a tile on tensor cores, and pieces in shared memory at most: each has a barrier.
TERMS, PIECE_BARRIERS = 32, 32

#: Bytes of which a multiple is the address of a tile that the copy engine brings.
ALIGNED = 1024

#: Cycles of a chunk of pieces after the first, until its copies arrive.
TENSOR_CHUNK = 600

#: Numbers of the largest tile of a weight gradient on tensor cores: larger ones, in fewer chunks, were slower on an
#: H200.
STREAM_TILES = 2048

#: Costs of a tile on tensor cores, fitted to 17 steps of eleven nets on an H200, 13 of them within 10 % and all within
#: 22 %: cycles beyond its copies and products; factors of these with k along the rows and with k from row to row of
#: both factors; cycles of an optimizer's step for each number that it loads, the parameter and its slots; and cycles of
#: each tile of several that a block computes one after the other.
TENSOR_LATENCY, ALONG, ACROSS, STEP, STREAM_TILE = 2100, 1.6, 2.2, 0.68, 1400


@dataclass(frozen=True)
class PhaseTile:
    """Shape of a tile, `Tile` of product.cuh: 4 * down rows, 4 * across columns, k in pieces of `depth`, of which
    `stages` are in shared memory at a time.

    separate : True if separate sums compute the bias of a weight gradient.
    """

    down: int
    across: int
    depth: int
    stages: int
    separate: bool = False

    def __str__(self) -> str:
        return f"Tile<{self.down}, {self.across}, {self.depth}, {self.stages}>"

    @property
    def rows(self) -> int:
        return 4 * self.down

    @property
    def columns(self) -> int:
        return 4 * self.across

    def shared(self, inside: tuple[bool, bool]) -> int:
        """Bytes of shared memory: the panels, or the sums of all groups and the finished tile.

        inside : for each factor, True if neighbours in memory are neighbours in k.
        """
        panels = self.stages * sum(
            size * (self.depth + 4) if along else self.depth * (size + 4)
            for size, along in zip((self.rows, self.columns), inside, strict=True)
        )
        return 4 * max(panels, 16 * THREADS + self.rows * self.columns)

    def cycles(self, depth: int, active: int, rounds: int = 1) -> float:
        """Estimated cycles of `rounds` tiles with `depth` numbers of k, while `active` blocks compute one each."""
        pieces, groups = -(-depth // self.depth), THREADS // (self.down * self.across)
        deep = min(self.depth, depth)
        load = 4 * (self.rows + self.columns) * deep / min(L2_BYTES_EACH, L2_BYTES / active)
        work = self.rows * self.columns * 4 * groups * -(-deep // (4 * groups)) / FMAS + PIECE
        tile = LATENCY + BIAS * self.separate + load + work + (pieces - 1) * max(load, work, PIECE_LATENCY)
        return rounds * tile


@dataclass(frozen=True)
class TensorPhaseTile:
    """Shape of a tile on tensor cores, `TensorTile` of tensor_product.cuh.

    rows, columns : numbers of the product. warp_rows, warp_columns : numbers of one warp.
    chunk : pieces of 32 numbers of k that are requested together. buffers : chunks in shared memory at a time.
    stream : True if chunks of a block's next tiles are requested while it computes one; sums have their own memory.
    separate : as in `PhaseTile`. loads : numbers that an optimizer's step loads for each of the tile; 0 without a step.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    chunk: int
    buffers: int
    stream: bool = False
    separate: bool = False
    loads: int = 0

    def __str__(self) -> str:
        sizes = self.rows, self.columns, self.warp_rows, self.warp_columns, self.chunk, self.buffers
        return f"TensorTile<{', '.join(map(str, sizes))}{', true' if self.stream else ''}>"

    @property
    def code(self) -> object:
        """Key of the function that multiplies: tiles with one chunk share it, however long the chunk is."""
        shape = self.rows, self.columns, self.warp_rows, self.warp_columns, self.stream, self.buffers
        return (*shape, None if self.buffers == 1 else self.chunk)

    @property
    def groups(self) -> int:
        """Number of warps that divide k among themselves."""
        return THREADS // 32 * self.warp_rows * self.warp_columns // (self.rows * self.columns)

    def piece(self, inside: tuple[bool, bool]) -> int:
        """Bytes of a piece of both factors."""
        return (
            4
            * TERMS
            * sum(
                size if along else -(-size // 32) * 32
                for size, along in zip((self.rows, self.columns), inside, strict=True)
            )
        )

    def shared(self, inside: tuple[bool, bool]) -> int:
        """Bytes of shared memory, as of a `PhaseTile`."""
        numbers = self.rows * self.columns
        sums = 4 * (self.groups * self.rows * (self.columns + 8) + numbers)
        early = 4 * numbers * (3 if inside == (False, False) else 2)
        panels = ALIGNED + self.chunk * self.buffers * self.piece(inside)
        return (panels + sums if self.stream else max(panels, sums)) + early

    def cycles(self, depth: int, active: int, rounds: int = 1) -> float:
        """Estimated cycles of `rounds` tiles, as of a `PhaseTile`."""
        columns = max(self.columns, 32) if self.stream else self.columns  # with k from row to row 32 are copied
        load = 4 * (self.rows + columns) * depth / min(ALL_AT_ONCE_EACH, ALL_AT_ONCE / active)
        products = 3 * (self.warp_rows // 16) * (self.warp_columns // 8)
        work = 8 * -(-depth // (8 * self.groups)) * (EIGHT + MMA * products)
        if self.stream:
            each = STREAM_TILE + STEP * self.loads * self.rows * self.columns
            return TENSOR_LATENCY + rounds * (max(load, work * ACROSS) + each)
        chunks = -(-depth // (TERMS * self.chunk))
        return rounds * (TENSOR_LATENCY + max(load, work) * ALONG + (chunks - 1) * TENSOR_CHUNK)


#: Most outputs of a last layer in one phase with its loss, and most quads of its weights for a thread, times outputs.
HEAD_OUTPUTS, HEAD_QUADS = 32, 96

#: Cycles of such a phase beyond its products, and of a round of samples; cycles of an instruction of four warps.
HEAD_LATENCY, HEAD_ROUND, HEAD_INSTRUCTION = 1850, 1100, 2


@dataclass(frozen=True)
class HeadTile:
    """Samples of a block in the phase of a classifier's last layer, its loss and its input gradient (head.cuh).

    rows : samples at a time, among which the block's warps are divided.
    columns, depth : the layer's outputs and inputs.
    """

    rows: int
    columns: int
    depth: int

    separate = False

    @property
    def quads(self) -> int:
        """Number of quads of a sample's inputs for each thread."""
        return -(-self.depth // (4 * THREADS // self.rows))

    def shared(self, _: tuple[bool, bool]) -> int:
        """Bytes of shared memory: the layer's weights, in rows of whole quads with the bias."""
        return 4 * self.columns * ((self.depth + 4) // 4 * 4)

    def cycles(self, _depth: int, _active: int, rounds: int = 1) -> float:
        """Estimated cycles of `rounds` tiles, as of a `PhaseTile`."""
        instructions = self.columns * (8 * self.quads + 10)
        return HEAD_LATENCY + rounds * (HEAD_ROUND + HEAD_INSTRUCTION * instructions)


AnyTile = PhaseTile | TensorPhaseTile | HeadTile


def head_tile(samples: int, outputs: int, inputs: int, blocks: int) -> HeadTile | None:
    """Tile for one round of all samples on these blocks, if eight for each are enough; None for a layer too large."""
    rows = next((each for each in (1, 2, 4) if each * blocks >= samples), 8)
    tile = HeadTile(rows, outputs, inputs)
    return tile if outputs <= HEAD_OUTPUTS and tile.quads * outputs <= HEAD_QUADS else None


def multiply_add_tiles(depth: int, least_columns: int) -> Iterator[PhaseTile]:
    """Tiles for a product with `depth` numbers of k, with at least `least_columns` columns."""
    sizes = [2**i for i in range(THREADS.bit_length())]
    for down, across in product(sizes, sizes):
        if down * across <= THREADS and 4 * across >= least_columns:
            for deep in DEPTHS:
                if deep < max(8, 2 * depth):
                    yield PhaseTile(down, across, deep, min(STAGES, -(-depth // deep)))


def tensor_tiles(
    depth: int, least_columns: int, capacity: int, inside: tuple[bool, bool], loads: int
) -> Iterator[TensorPhaseTile]:
    """Tiles as `multiply_add_tiles`, with as many pieces in `capacity` bytes of shared memory as fit."""
    for rows, columns in product((16, 32, 64, 128), (16, 32, 64, 128)):
        for warp_rows, warp_columns in product((16, 32), (16, 32)):
            places = rows // warp_rows * (columns // warp_columns)
            if columns < least_columns or rows * columns > 4096 or not 1 <= places <= THREADS // 32:
                continue
            pieces = -(-depth // TERMS)
            if loads and rows * columns <= STREAM_TILES and max(rows, columns) <= 64 and (rows, columns) != (64, 16):
                tile = TensorPhaseTile(rows, columns, warp_rows, warp_columns, pieces, 1, True, loads=loads)
                if (streamed := _streamed(tile, pieces, capacity, inside)) is not None:
                    yield streamed
            if loads:
                continue
            tile = TensorPhaseTile(rows, columns, warp_rows, warp_columns, pieces, 1, loads=loads)
            if pieces > PIECE_BARRIERS or tile.shared(inside) > capacity:
                fitting = min(
                    PIECE_BARRIERS,
                    (capacity - tile.shared(inside) + tile.chunk * tile.piece(inside)) // tile.piece(inside),
                )
                tile = replace(tile, chunk=fitting // 2, buffers=2)
            if tile.chunk and tile.shared(inside) <= capacity:
                yield tile


def _streamed(tile: TensorPhaseTile, pieces: int, capacity: int, inside: tuple[bool, bool]) -> TensorPhaseTile | None:
    """Tile with chunks of a piece for each group of warps, or fewer where two do not fit, and as many of two tiles as
    fit; None if two pieces do not."""
    room = capacity - tile.shared(inside) + tile.chunk * tile.piece(inside)
    fitting = min(PIECE_BARRIERS, room // tile.piece(inside))
    chunk = min(tile.groups, pieces, fitting // 2)
    return replace(tile, chunk=chunk, buffers=min(fitting // chunk, 2 * -(-pieces // chunk))) if chunk > 0 else None
