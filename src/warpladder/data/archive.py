"""Reading single files out of a tar archive, without unpacking anything to the disk.

Nothing of the archive's own paths is used but the last part of a regular file's name, to compare
it with the names wanted; so paths that climb out, links and devices are harmless.
"""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Iterator

from .reader import LIMIT, Reader
from .sniff import looks_like

_MOST_MEMBERS = 1000
_BLOCK = 2**20


def members(reader: Reader, wanted: Collection[str], limit: int) -> Iterator[tuple[str, bytearray]]:
    """Yield (name, content) of the wanted files, in the archive's order.

    Parameters
    ----------
    reader : Reader
        A tar archive, gzipped or not.
    wanted : collection of str
        File names without folders; each must be there exactly once.
    limit : int
        Most bytes that a wanted file may have.
    """
    head = reader.peek(300)
    if not head:
        reader.fail("is empty where a tar archive is wanted: fetch the file again")
    left = set(wanted)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:  # type: ignore[call-overload]  # it wants no more than read()
            for number, member in enumerate(archive):
                name = member.name.rsplit("/", 1)[-1]
                # Before the next step, which would crawl for ages to the end of what the size claims.
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
        what = "damaged or cut off" if kind == "a tar archive" else f"no tar archive, it looks like {kind}"
        reader.fail(f"is {what} ({error}): fetch the file again")
    reader.fail(f"does not hold {', '.join(sorted(left))}")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytearray:
    out = bytearray()
    if file := archive.extractfile(member):
        while block := file.read(_BLOCK):
            out += block
    return out
