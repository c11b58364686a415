"""Sizes of tiles, chunks and offset tables, and kinds of a tile's start and finish: shared by plans and kernels."""

from ..compiler.vectors import TOGETHER, WIDE, WIDTH

# start and finish of a tile's sums
ZERO, BIAS, ADD = range(3)
STORE, RELU, MASK, STEP = range(4)

ROWS = 8 if WIDE else 6  # of a tile of a convolution
LONE_ROWS = 12 if WIDE else 6  # of a tile of one panel, with half as many sums a row
BROAD_ROWS, BROAD = 6, 4  # rows and panels of AVX-512's broad tile, which has the fewest loads for its products
RUN, TAPS = 13 if WIDE else 9, 3  # pixels of a tile of a pixel run, and columns of its kernels (pixel_run_tile.py)
PAIR_RUN = 8  # pixels of a pixel run's tile of two panels
BLOCK = 96  # pixels whose offsets are computed at once; a multiple of both
KINDS = 3  # offset tables: of the patches, of the results, and of the masks
CHUNK = 128  # pixels that a weight-gradient tile sums before it is stored
# inputs of a block of a list (nonzeros/), and panels of a tile: their weights nearly fit the first-level cache
LISTED, LISTED_PANELS = 128, 4
LISTED_PITCH = LISTED * WIDTH + 64  # floats from panel to panel of a block's gradients: not a whole page
UPDATED = 512  # weights that are updated at a time, so that their summed gradient stays in the first-level cache
#: floats of a thread's scratch: gradients that are updated at a time, or a block's, and a list with its zeros
SCRATCH = max(TOGETHER * UPDATED, LISTED_PANELS * LISTED_PITCH + 2 * LISTED)
