"""Checkpoints: a run on disk, which can be continued bit for bit. Files are safetensors, written atomically.

It imports config, nets, results, files and errors. Begin with content.py, then document.py and codec.py.
"""

from ..files.atomic import clean_leftovers, replacing
from ..nets.describe import net_from_json, net_to_json
from .codec import decode, encode
from .content import Checkpoint, DataMark, EpochLog, EpochSums, Score, best_epoch, is_over
from .differ import differences
from .file import check_free, check_writable, load, save
from .weights import flat_weights, read_weights

__all__ = [
    "Checkpoint", "DataMark", "EpochLog", "EpochSums", "Score", "best_epoch", "check_free", "check_writable",
    "clean_leftovers", "decode", "differences", "encode", "flat_weights", "is_over", "load", "net_from_json",
    "net_to_json", "read_weights", "replacing", "save",
]  # fmt: skip
