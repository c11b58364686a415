"""Checkpoints: a run on disk, from which it can go on bit for bit. safetensors files, written whole or not at all."""

from __future__ import annotations

from ..files.atomic import clean_leftovers, replacing
from ..nets.describe import net_from_json, net_to_json
from .codec import decode, encode
from .content import Checkpoint, DataMark, EpochLog, Score, Sums
from .differ import differences
from .file import check_free, check_writable, load, save
from .weights import flat_weights, read_weights

__all__ = [
    "Checkpoint",
    "DataMark",
    "EpochLog",
    "Score",
    "Sums",
    "check_free",
    "check_writable",
    "clean_leftovers",
    "decode",
    "differences",
    "encode",
    "flat_weights",
    "load",
    "net_from_json",
    "net_to_json",
    "read_weights",
    "replacing",
    "save",
]
