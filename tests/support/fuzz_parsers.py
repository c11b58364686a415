"""Feed every file parser inputs that are nearly right: python tests/support/fuzz_parsers.py --count 1000000 --seed 1
--parser idx

A parser passes where each input gives a result that holds the target's own check, or the parser's
typed error of one line, within the time and memory limits. Input number i of a seed is the same on
every machine; a failure is printed with the command that repeats it.

To fuzz another parser, add a line to `TARGETS`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import signal
import struct
import sys
import tarfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

import fuzz_checkpoints
import numpy as np
from climbs import example

from warpladder.data import cifar10
from warpladder.data.cifar10 import parse_batch
from warpladder.data.idx import read_images, read_labels
from warpladder.data.reader import from_bytes
from warpladder.data.tables import text
from warpladder.data.tables.numeric import read_table
from warpladder.errors import CheckpointError, DataError, ResultsError
from warpladder.results import parse as parse_results
from warpladder.results.report.page import page

SECONDS_PER_INPUT = (
    20.0  # of wall time, after which an input is stopped; a busy machine may pause a process for seconds
)
CPU_SECONDS_PER_INPUT = 0.2  # more for 64 KB smells of quadratic time
MEMORY = 2**30  # bytes that a run may take beyond what it started with
_LONGEST = 2**16
_EDGES = (
    0,
    1,
    2,
    7,
    8,
    9,
    10,
    27,
    28,
    127,
    128,
    255,
    256,
    784,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
_NUL = bytes(16)


@dataclass(frozen=True)
class Target:
    """A parser to fuzz.

    Parameters
    ----------
    name : str
    parse : callable
        Takes the input; raises AssertionError where its result is not what a valid one must be.
    seeds : list of bytes
        Valid inputs, small, which are mutated.
    errors : tuple of exception types
        What the parser may raise.
    tokens : tuple of bytes
        Pieces worth putting anywhere into an input.
    finish : callable
        Takes a mutated input and a generator; mends checksums or compresses, so that damage reaches deep.
    """

    name: str
    parse: Callable[[bytes], object]
    seeds: list[bytes]
    errors: tuple[type[Exception], ...] = (DataError,)
    tokens: tuple[bytes, ...] = ()
    finish: Callable[[bytes, random.Random], bytes] = lambda content, rng: content


@dataclass
class Outcome:
    """What became of the inputs: counts, the kinds of refusals, and failures as (number, what happened).

    slowest : CPU seconds of the slowest input.
    """

    valid: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest: float = 0.0


class _OutOfTime(BaseException):
    pass


def mutate(target: Target, seed: int, number: int) -> bytes:
    """Input `number` of a seed."""
    rng = random.Random(seed << 40 | number)
    content = bytearray(rng.choice(target.seeds))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        _damage(content, target, rng)
    return target.finish(bytes(content[:_LONGEST]), rng)


def _damage(content: bytearray, target: Target, rng: random.Random) -> None:
    size = len(content)
    # Half of the damage goes to the first bytes, where headers are.
    at = rng.randrange(min(size, 64) if rng.random() < 0.5 else size) if size else 0
    kind = rng.randrange(9 + 3 * bool(target.tokens))
    if kind == 0 and size:
        content[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and size:
        content[at] = rng.randrange(256)
    elif kind == 2:
        number = rng.choice(_EDGES) if rng.random() < 0.7 else rng.getrandbits(32)
        aligned = at & ~3
        content[aligned : aligned + 4] = struct.pack(rng.choice("<>") + "I", number)
    elif kind == 3:
        del content[at:]
    elif kind == 4:
        del content[at : at + rng.choice((1, 2, 4, 16, 512, size // 2))]
    elif kind == 5:
        content[at:at] = content[at : at + rng.choice((1, 4, 16, 512))] * rng.choice((1, 2, 40))
    elif kind == 6:
        content[at:at] = rng.randbytes(rng.choice((1, 2, 8, 100)))
    elif kind == 7:
        other = rng.choice(target.seeds)
        content[at:] = other[rng.randrange(len(other) + 1) :]
    elif kind == 8:
        content[at : at + len(_NUL)] = _NUL
    elif target.tokens:
        token = rng.choice(target.tokens)
        content[at : at + len(token) * rng.randrange(2)] = token
    del content[_LONGEST:]


def run(target: Target, count: int, seed: int, first: int = 0, most_failures: int = 10) -> Outcome:
    """Parse inputs first .. first + count - 1 of a seed."""
    outcome = Outcome()
    previous = signal.signal(signal.SIGALRM, _raise_out_of_time)
    try:
        for number in range(first, first + count):
            content = mutate(target, seed, number)
            start = time.process_time()
            signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)
            try:
                target.parse(content)
                signal.setitimer(signal.ITIMER_REAL, 0)
                outcome.valid += 1
            except target.errors as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                text = str(error)
                if "\n" in text or not text.strip():
                    outcome.failures.append((number, f"a message that is not one line: {text!r}"))
                outcome.refusals[_kind(text)] += 1
            except _OutOfTime:
                outcome.failures.append((number, f"longer than {SECONDS_PER_INPUT} s"))
            except Exception as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                outcome.failures.append((number, f"{type(error).__name__}: {str(error)[:200]}"))
            spent = time.process_time() - start
            if spent > CPU_SECONDS_PER_INPUT and not any(failed == number for failed, _ in outcome.failures):
                # a virtual machine that is stopped meanwhile, and a first import, count as this process's; what is
                # quadratic is slow each time
                spent = min(_cpu_seconds(target, content) for _ in range(3))
            outcome.slowest = max(outcome.slowest, spent)
            if spent > CPU_SECONDS_PER_INPUT:
                outcome.failures.append((number, f"{spent:.2f} s of CPU time for {len(content):,} bytes"))
            if len(outcome.failures) >= most_failures:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return outcome


def _cpu_seconds(target: Target, content: bytes) -> float:
    """Processor time that one more parse takes, whatever its end: it was judged before."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)
    with suppress(Exception, _OutOfTime):
        target.parse(content)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return time.process_time() - start


def _raise_out_of_time(signum: int, frame: FrameType | None) -> None:
    raise _OutOfTime


def _kind(text: str) -> str:
    """A message without its numbers and quotes, to count the ways in which inputs are refused."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)+", "_", text)
    return re.sub(r"[0-9a-f,]*\d[0-9a-f,]*( [0-9a-f]{2}\b)*", "#", text)[:90]


# The parsers: inputs that are right, and what must hold of a result.


def _idx(*shape: int) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(
        i % 10 for i in range(int(np.prod(shape)))
    )


def _parse_idx(content: bytes) -> None:
    labels = content[3:4] == b"\x01"
    values = (read_labels if labels else read_images)(from_bytes(content))
    assert values.dtype == np.uint8 and values.ndim == (1 if labels else 3) and values.size > 0
    assert content.startswith(b"\x1f\x8b") or values.size == len(content) - 4 - 4 * values.ndim


def _parse_gzip(content: bytes) -> None:
    plain = bytes(from_bytes(content).rest())
    assert content[:2] == b"\x1f\x8b" or plain == content
    with suppress(zlib.error):  # zlib alone refuses reserved flags
        assert content[:2] != b"\x1f\x8b" or plain == _gunzip(content)
    images = read_images(from_bytes(content))
    assert images.tobytes() == plain[16:]


def _two_members(content: bytes) -> bytes:
    return gzip.compress(content[:20], mtime=0) + gzip.compress(content[20:], mtime=0)


def _gunzip(content: bytes) -> bytes:
    """All members of a gzip file, by zlib alone."""
    out = b""
    while content:
        member = zlib.decompressobj(wbits=31)
        out += member.decompress(content)
        assert member.eof
        content = member.unused_data.lstrip(b"\0")
    return out


def _compress(content: bytes, rng: random.Random) -> bytes:
    """Compressed after the damage, now and then."""
    return gzip.compress(content, 1, mtime=0) if rng.random() < 0.3 and content[:2] != b"\x1f\x8b" else content


def _cifar(records: int) -> bytes:
    return b"".join(bytes([i % 10]) + bytes([i]) * 3072 for i in range(records))


def _parse_cifar(content: bytes) -> None:
    batch = parse_batch(from_bytes(content).rest(), "input")
    assert batch.dtype == np.uint8 and batch.shape[1] == 3073 and batch[:, 0].max() < 10


def _tar(layout: int, names: tuple[str, ...] = (*cifar10.TRAIN, cifar10.TEST)) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=layout) as archive:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(f"{'very-long/' * 12 if number == 1 else ''}cifar-10-batches-bin/{name}")
            member.size = 3073
            archive.addfile(member, io.BytesIO(bytes([number]) * 3073))
    return out.getvalue()


def _parse_tar(content: bytes) -> None:
    batches = cifar10.archived_batches(from_bytes(content))
    assert sorted(batches) == sorted((*cifar10.TRAIN, cifar10.TEST))
    assert all(batch.shape[1] == 3073 for batch in batches.values())


def _mend_tar(content: bytes, rng: random.Random) -> bytes:
    """The checksums of the first headers put right, and the whole compressed now and then."""
    out = bytearray(content)
    if rng.random() < 0.8:
        for start in range(0, len(out) - 511, 512):
            if out[start + 257 : start + 262] == b"ustar":
                out[start + 148 : start + 156] = b" " * 8
                out[start + 148 : start + 156] = b"%06o\0 " % sum(out[start : start + 512])
    return _compress(bytes(out), rng)


def _parse_csv(content: bytes) -> None:
    """A table of pixels: each column read at once is the one read cell by cell."""
    read = read_table(from_bytes(content))
    assert read.cells.dtype == np.uint8 and read.cells.ndim == 2 and read.cells.size > 0
    _compare_cells(content)


def _parse_features(content: bytes) -> None:
    """Names and any numbers."""
    read = read_table(from_bytes(content), names=True, numbers=True)
    assert read.cells.dtype == np.float32 and np.isfinite(read.cells).all() and len(read.cells) > 0
    assert read.names is None or (len(read.names) == len(read.cells) and all(read.names))
    _compare_cells(content)


def _compare_cells(content: bytes) -> None:
    found = text.read_text(from_bytes(content))
    for number, column in enumerate(found.columns):
        one_by_one = np.array([found._number(cell) for cell in column.to_pylist()])
        assert np.array_equal(found.numbers(number), one_by_one, equal_nan=True)


def _parse_results(content: bytes) -> None:
    """What was read can be written and read again, and shown."""
    results = parse_results(content)
    assert parse_results(json.dumps(asdict(results), allow_nan=False).encode()) == results
    assert page(results, pictures=False).endswith("</html>\n")


_RESULTS = (
    json.dumps(asdict(example())).encode(),
    json.dumps(asdict(example(rungs=example().rungs[2:4])), indent=1).encode(),
)

_CSV = (
    b"label,pixel0,pixel1,pixel2,pixel3\n5,0,255,17,3\n0,1,2,3,4\n9,0,0,0,0\n",
    b"1,2,3\r\n4,5,6\r\n7,8,9\r\n",
    b'"label","1x1"\n"7",200\n 8 ,4.0',
    b"\xef\xbb\xbfpixel0\n1\n\n2\n\n\n255",
)

_FEATURES = (
    b"species,length,width\nsetosa,5.1,3.5\nrose,-1e-3,.5\nsetosa,7,2\n",
    b"cat,0,1\ndog,3,4\ncat,5.5,6\n",
    b'label,0,1\r\n"a",1,2\r\n',
    b"3,1.5,2\n4,2.5,3\n",
)

TARGETS = (
    Target(
        "idx",
        _parse_idx,
        [_idx(3, 4, 4), _idx(2, 28, 28), _idx(20), _idx(1)],
        tokens=(b"\0\0\x08\x01", b"\0\0\x08\x03", b"<html>"),
    ),
    Target(
        "gzip",
        _parse_gzip,
        [gzip.compress(_idx(3, 4, 4), mtime=0), _idx(3, 4, 4), _two_members(_idx(2, 5, 5))],
        finish=_compress,
    ),
    Target(
        "cifar",
        _parse_cifar,
        [_cifar(1), _cifar(3)],
        tokens=(b"\x0a", b"\xff", b"\x80\x04\x95", b"<html>", b"PK\x03\x04", bytes(3073), bytes(3074)),
        finish=_compress,
    ),
    Target(
        "tar",
        _parse_tar,
        [_tar(tarfile.USTAR_FORMAT), _tar(tarfile.GNU_FORMAT), _tar(tarfile.PAX_FORMAT)],
        tokens=(
            b"00000000000\0",
            b"77777777777\0",
            b"\x80\0\0\0\0\0\0\x01",
            b"\xff" * 12,
            b"00000006001\0",
            b"L",
            b"x",
            b"S",
            b"size=9",
        ),
        finish=_mend_tar,
    ),
    Target(
        "features",
        _parse_features,
        list(_FEATURES),
        tokens=(b",", b"\n", b'"', b"nan", b"1e999", b"\xff", b"0,1\n", b"cat", b"label"),
    ),
    Target(
        "csv",
        _parse_csv,
        list(_CSV),
        tokens=(
            b",",
            b"\n",
            b"\r\n",
            b'"',
            b"-1",
            b"256",
            b"0255",
            b"1e2",
            b"nan",
            b"",
            b" ",
            b"1.0",
            b"\0",
            b"9" * 50,
            b"\xef\xbb\xbf",
            b"label",
        ),
        finish=_compress,
    ),
    Target(
        "results",
        _parse_results,
        list(_RESULTS),
        errors=(ResultsError,),
        tokens=(
            b"null",
            b"0",
            b"-1",
            b"1e999",
            b"1e308",
            b"1e-320",
            b"[]",
            b"{}",
            b'""',
            b'"\\ud800"',
            b"true",
            b"NaN",
            b"[" * 5000,
            b"9" * 5000,
            b'"timed"',
        ),
    ),
    Target(
        "checkpoint",
        fuzz_checkpoints.parse,
        fuzz_checkpoints.VALID,
        errors=(CheckpointError,),
        tokens=(
            b"F64",
            b"BF16",
            b"1.weight",
            b"velocity.",
            b"exp_avg_sq.",
            b'\\"',
            b"null",
            b"-1",
            b"9" * 30,
            b"[" * 5000,
            b"{}",
            b"__metadata__",
            b"\0" * 8,
        ),
        finish=fuzz_checkpoints.damage,
    ),
)


def main() -> int:
    """Run what the command line asks for; 1 where an input failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parser", choices=[target.name for target in TARGETS], action="append", help="default: all")
    parser.add_argument("--count", type=int, default=100_000, help="inputs for each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    _limit_memory()
    failed = False
    for target in TARGETS:
        if options.parser and target.name not in options.parser:
            continue
        start = time.perf_counter()
        outcome = run(target, options.count, options.seed, options.first)
        seconds = time.perf_counter() - start
        refused = sum(outcome.refusals.values())
        done = outcome.valid + refused + len(outcome.failures)
        print(
            f"{target.name}: {done:,} inputs, {outcome.valid:,} valid, {refused:,} refused in {len(outcome.refusals)} ways, "
            f"{len(outcome.failures)} failed; {done / seconds:,.0f}/s, slowest {1e3 * outcome.slowest:.0f} ms",
            flush=True,
        )
        for number, what in outcome.failures:
            print(
                f"  {what}\n    python {sys.argv[0]} --parser {target.name} --seed {options.seed} --first {number} --count 1"
            )
        failed |= bool(outcome.failures)
    return int(failed)


def _limit_memory() -> None:
    """An input that makes a parser allocate what its header claims must show as a MemoryError."""
    import resource

    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    sys.exit(main())
