"""Search for the files of a data set in a folder that the user names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError
from ..errors.arguments import listed, wanted

#: Environment variable with the folder of data sets.
VARIABLE = "WARPLADDER_DATA"

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z", ".rar")


def root(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Folder of data sets: `data_dir`, else the folder in WARPLADDER_DATA, else None."""
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if chosen is None:
        return None
    wanted("data_dir", chosen, (str, os.PathLike), "the path of a folder")
    option = "--data-dir" if data_dir is not None else VARIABLE
    folder = Path(chosen).expanduser()
    try:
        if not folder.is_dir():
            what = "is a file, not a folder" if folder.exists() else "does not exist"
            raise DataError(f"{folder}: {what}: {option} wants the folder that holds the data files")
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be opened ({error.strerror or error}): {option} wants a folder that may be read"
        ) from None
    return folder


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Path of the first of these names in a folder, plain or with the suffix .gz; None if no file is found.

    Some archives unpack each file into a folder of the same name: the file in it is found too. A folder without the
    file is returned itself, so that opening it reports the error.
    """
    spellings = [name + end for name in names for end in ("", ".gz")]
    candidates = [folder / name for name in spellings]
    nested = [folder / outer / inner for outer in spellings for inner in spellings]
    try:
        for path in (*candidates, *nested):
            if path.exists() and not path.is_dir():
                return path
        return next((path for path in candidates if path.exists()), None)
    except OSError as error:
        raise DataError(f"{folder}: cannot be searched ({error.strerror or error}): check its permissions") from None


def find_all(root: Path, folders: Sequence[str], files: Sequence[Sequence[str]]) -> list[Path] | None:
    """Paths of all files of a data set, from one folder in `root`.

    Parameters
    ----------
    root : Path
    folders : sequence of str
        Usual folders of the set, most specific first; "." is `root` itself.
    files : sequence of sequence of str
        Possible names of each file.

    Returns
    -------
    list of Path or None
        Paths in the order of `files`, all from the first folder with all of them; None if no folder has any.

    Raises
    ------
    DataError
        Folders have some of the files, but none has all.
    """
    partial: DataError | None = None
    for name in folders:
        folder = root / name
        found = [find(folder, names) for names in files]
        if all(found):
            return [path for path in found if path]
        if any(found) and partial is None:
            missing = ", ".join(names[0] for names, path in zip(files, found, strict=True) if path is None)
            one = "; a table in one file is split by --data FILE.csv --label NAME" * missing.endswith(".csv")
            partial = DataError(
                f"{folder}: holds only a part of the data set: {missing} (plain or .gz) is missing{one}"
            )
    if partial:
        raise partial
    return None


def archives(folder: Path) -> str:
    """Clause about archives in a folder, for a message that files are missing; "" without archives."""
    try:
        found = [path.name for path in sorted(folder.iterdir()) if path.name.lower().endswith(ARCHIVES)]
    except OSError:
        return ""
    return f"; {listed(found)!r} lies there: unpack it first" if found else ""
