"""`warpladder report`: the page of stored results, and of several climbs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ResultsError
from .keeping import check_place, overwrite_option

if TYPE_CHECKING:
    from ..results import Results
    from ..results.profiled import Profile


@click.command()
@click.argument("files", metavar="RESULTS.json [MORE.json]...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where the page goes; report.html beside the first file if not given.",
)
@overwrite_option
def report(files: tuple[Path, ...], out: Path | None, overwrite: bool) -> None:
    """Make the page of a climb from its stored results: one file, which needs no network.

    Several results are compared with the first: two machines, two commits, two students. What changed by more than the noise of the
    repetitions is marked. Profiles, as 'warpladder profile --out' writes them, may stand among the files: they show where the time goes.

    \b
    Examples:
      warpladder report runs/NET-D-TIME/results.json -o report.html
      warpladder report before/results.json after/results.json -o compared.html
      warpladder report results.json profile.json -o report.html
    """
    from ..report.page import write_page

    climbs: dict[Path, Results] = {}
    profiles: list[Profile] = []
    for file in files:
        found = _read(file)
        if isinstance(found, tuple):
            profiles.append(found[0])
        elif file in climbs:
            raise ResultsError(f"{file}: is named twice; name each results file once")
        else:
            climbs[file] = found
    if not climbs:
        raise ResultsError(f"{files[0]}: is a profile, and a page wants a results file too, as 'warpladder climb' writes it")
    place = out or next(iter(climbs)).with_name("report.html")
    check_place(place, overwrite, *files)
    write_page(list(climbs.values()), place, _labels(list(climbs)), profiles)
    click.echo(f"Open this: {place}")


def _read(file: Path) -> Results | tuple[Profile]:
    """Read a results file or a profile: the results of a climb, or the profile in a tuple."""
    from .. import results
    from ..results import profiled

    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ResultsError(f"{file}: {error.strerror or error}") from None
    try:
        if b'"step_seconds"' in raw and b'"rungs"' not in raw:
            return (profiled.parse(raw),)
        return results.parse(raw)
    except ResultsError as error:
        raise ResultsError(f"{file}: {error}") from None


def _labels(files: list[Path]) -> list[str]:
    """The shortest ends of the paths that tell the files apart: their folders where all are called results.json."""
    full = [file.resolve().parts for file in files]
    for count in range(1, max(map(len, full)) + 1):
        ends = [parts[-count:] for parts in full]
        if len(set(ends)) == len(ends):
            alike = count > 1 and len({end[-1] for end in ends}) == 1
            return ["/".join(end[:-1] if alike else end) for end in ends]
    return [str(file) for file in files]
