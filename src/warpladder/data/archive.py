"""Reader of single files in a tar archive, without unpacking the archive to the disk.

Of the paths in the archive only the file names of regular files are used, to compare them with the wanted names: so
paths that leave the folder, links and devices are harmless.
"""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Iterator

from .reader import LIMIT, Reader
from .sniff import looks_like

_MOST_MEMBERS = 1000
_BLOCK = 2**20


def members(reader: Reader, wanted: Collection[str], limit: int) -> Iterator[tuple[str, bytearray]]:
    """Contents of the wanted files, as pairs (name, content), in the archive's order.

    Parameters
    ----------
    reader : Reader
        Tar archive, gzipped or not.
    wanted : collection of str
        File names without folders; each must occur exactly once.
    limit : int
        Most bytes of a wanted file.
    """
    head = reader.peek(300)
    if not head:
        reader.fail("is empty where a tar archive is wanted: fetch the file again")
    left = set(wanted)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:  # type: ignore[call-overload]  # read() is enough
            for number, member in enumerate(archive):
                name = member.name.rsplit("/", 1)[-1]
                # A check before the next step, which would read to the end of a false size.
                if not 0 <= member.size <= LIMIT or number >= _MOST_MEMBERS:
                    reader.fail(
                        f"its entry {number}, {name!r}, claims {member.size:,} bytes: it is damaged or no data archive"
                    )
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse() or name not in wanted:
                    continue
                if name not in left:
                    reader.fail(f"holds {name} twice")
                if member.size > limit:
                    reader.fail(f"its {name} claims {member.size:,} bytes, more than any batch has: fetch it again")
                left.discard(name)
                yield name, _content(archive, member)
                if not left:
                    return
    except (tarfile.TarError, EOFError) as error:
        kind = looks_like(head)
        is_tar = kind == "a tar archive"
        what = f"is damaged or cut off ({error})" if is_tar else f"is no tar archive, it looks like {kind}"
        reader.fail(f"{what}: fetch the file again")
    reader.fail(f"does not hold {', '.join(sorted(left))}")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytearray:
    out = bytearray()
    if file := archive.extractfile(member):
        while block := file.read(_BLOCK):
            out += block
    return out
