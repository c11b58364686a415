"""CIFAR-10: 60,000 colour photographs of 32 x 32 pixels (Krizhevsky 2009), the binary version.

A batch is a file of records: one label byte, then 3,072 pixel bytes in three planes of 32 x 32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import DataError
from .archive import members
from .dataset import Dataset
from .fetch import Remote, fetch_all
from .local import archives, find, find_all
from .reader import Reader, opened
from .sniff import looks_like
from .source import Request, Source

SHAPE = (3, 32, 32)
CLASSES = 10
RECORD = 1 + 3 * 32 * 32

FOLDERS = ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "cifar-10", "CIFAR10", ".")
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
ARCHIVE = "cifar-10-binary.tar.gz"
PICKLED = ("cifar-10-python.tar.gz", "cifar-10-batches-py")
#: What CIFAR-100 is, in messages.
HUNDRED = "CIFAR-100, which is no set here: unpack its binary version, and read it by a file as in docs/data.md"
_MOST = 2**28  # bytes of one batch; the published ones have 30,730,000

# The set's own server, the last address, has been throttled to some 50 kB/s since June 2026.
REMOTE = Remote(
    ARCHIVE,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    (
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",
        "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    ),
)


def load(request: Request) -> Dataset:
    """Load 50,000 training and 10,000 test images, (3, 32, 32) uint8."""
    if request.root:
        if found := at_hand(request.root):
            return read_archive(found[0]) if len(found) == 1 else read_batches(found)
        if request.explicit:
            pickled = next((p for f in FOLDERS for n in PICKLED if (p := request.root / f / n).exists()), None)
            hint = f"; {pickled} is the Python version, a pickle, which is never loaded" if pickled else ""
            if hundred := hundred_in(request.root):
                hint += f"; {hundred.name} lies there: that is {HUNDRED}"
            elif not pickled:
                hint = archives(request.root)
            wanted = f"{ARCHIVE} or data_batch_1.bin to data_batch_5.bin and {TEST}"
            raise DataError(
                f"{request.root}: holds no cifar10: {wanted} are wanted there "
                f"or in {', '.join(FOLDERS[:-1])} below it{hint}"
            )
    return read_archive(fetch_all("cifar10", [REMOTE], progress=request.progress)[0])


def read_batches(paths: list[Path]) -> Dataset:
    """Read five training batches, in their order, and the test batch."""

    def batch(path: Path) -> np.ndarray:
        with opened(path) as reader:
            return parse_batch(reader.rest(), reader.name)

    return _dataset([batch(path) for path in paths[:-1]], batch(paths[-1]))


def read_archive(path: Path) -> Dataset:
    """Read the batches directly from the archive, without unpacking it to the disk."""
    with opened(path) as reader:
        batches = archived_batches(reader)
    test = batches.pop(TEST)
    return _dataset([batches.pop(name) for name in TRAIN], test)


def archived_batches(reader: Reader) -> dict[str, np.ndarray]:
    """Six batches of an archive by name, each (records, 3073) uint8."""
    return {
        name: parse_batch(content, f"{reader.name}, {name}") for name, content in members(reader, (*TRAIN, TEST), _MOST)
    }


def parse_batch(content: bytes | bytearray | memoryview, name: str) -> np.ndarray:
    """Records (records, 3073) uint8, a view of `content`: the label, then the pixels in the order of `SHAPE`.

    Raises
    ------
    DataError
        The content is not whole records with labels 0 to 9. `name` is the file's name in the message.
    """
    if not content:
        raise DataError(f"{name}: is empty where a CIFAR-10 batch is wanted: fetch the file again")
    if len(content) % RECORD:
        raise DataError(f"{name}: {_wrong_size(content)}")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0]
    if not labels.max() < CLASSES:
        first = int(np.argmax(labels >= CLASSES))
        raise DataError(
            f"{name}: label {labels[first]} of record {first} is out of range: labels are 0 to 9, "
            "so this is no CIFAR-10 batch"
        )
    return records


def _wrong_size(content: bytes | bytearray | memoryview) -> str:
    size = len(content)
    if size % (RECORD + 1) == 0:
        return f"{size:,} bytes are whole records of 3,074: this is {HUNDRED}"
    words = looks_like(bytes(content[:300]))
    if not words.startswith("unknown"):
        return f"looks like {words} where a CIFAR-10 batch (cifar-10-binary.tar.gz) is wanted"
    return f"{size:,} bytes are not whole records of 3,073: it is cut off or no CIFAR-10 batch, fetch it again"


def known(name: str) -> str:
    """Clause on a file or folder whose name is that of this set or of CIFAR-100, and what to do; "" for other names."""
    lower = name.lower()
    if lower.startswith(("cifar-100", "cifar100")):
        return f"is {HUNDRED}"
    if not lower.startswith(("cifar-10", "cifar10")):
        return ""
    return (
        "is the Python version of cifar10, pickles, which are never loaded: --data cifar10 fetches the binary one"
        if "-py" in lower
        else f"is cifar10: --data cifar10 --data-dir FOLDER takes the folder with {ARCHIVE} or its unpacked files"
    )


def hundred_in(folder: Path) -> Path | None:
    """CIFAR-100's folder or archive: this folder, or one that lies in it; None without one."""
    try:
        found = [*sorted(folder.iterdir()), folder]
    except OSError:
        return None
    return next((each for each in found if "CIFAR-100" in known(each.name) or (each / "train.bin").is_file()), None)


def at_hand(root: Path) -> list[Path] | None:
    """Paths of the six batches; if some are missing, of the archive alone; None if neither is found."""
    names = (ARCHIVE, ARCHIVE.removesuffix(".gz"))
    archive = next((path for folder in FOLDERS if (path := find(root / folder, names))), None)
    try:
        if paths := find_all(root, FOLDERS, [(name,) for name in (*TRAIN, TEST)]):
            return paths
    except DataError:
        if archive is None:
            raise
    return [archive] if archive else None


def _dataset(train: list[np.ndarray], test: np.ndarray) -> Dataset:
    rows = sum(len(batch) for batch in train)
    x = np.empty((rows, *SHAPE), np.uint8)
    y = np.empty(rows, np.int32)
    start = 0
    while train:
        # Each batch is freed after it was copied, so memory never has two whole copies.
        batch = train.pop(0)
        stop = start + len(batch)
        x[start:stop].reshape(-1, RECORD - 1)[:] = batch[:, 1:]
        y[start:stop] = batch[:, 0]
        start = stop
    return Dataset("cifar10", x, y, test[:, 1:].reshape(-1, *SHAPE), test[:, 0].astype(np.int32), 1 / 255)


NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SOURCE = Source("cifar10", "60,000 colour photographs, 3 x 32 x 32, 10 classes", load, (REMOTE,), label_names=NAMES)
