"""`warpladder report`: writes the page of stored results, or of several climbs or reproductions for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ResultsError
from .shared.files import check_place, write
from .shared.options import out_option, overwrite_option

if TYPE_CHECKING:
    from ..appendix.reproduce.results import Reproduction
    from ..results import Results
    from ..results.profiled import Profile


@click.command()
@click.argument(
    "files", metavar="RESULTS.json [MORE.json]...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@out_option("FILE", "Where the page goes; report.html next to the first file if not given.", "-o")
@click.option(
    "--csv",
    "csv_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the climbs as CSV too, a row for each rung of each.",
)
@overwrite_option
def report(files: tuple[Path, ...], out: Path | None, csv_file: Path | None, overwrite: bool) -> None:
    """Make the page of a climb, or of a reproduced report, from its stored results: one file, which needs no network.

    Several results are compared with the first: two machines, two commits, two students. Changes
    larger than the noise of the repetitions are marked. More than four results are ranked in a sortable table. Profiles
    of 'warpladder profile --out' may be among the files: they show the time of each part. Several reproductions of one
    report by 'warpladder reproduce' are shown next to each other, figure by figure.

    \b
    Examples:
      warpladder report runs/NET-D-TIME/results.json -o report.html
      warpladder report before/results.json after/results.json -o compared.html
      warpladder report results.json profile.json -o report.html
      warpladder report class/*/results.json -o class.html --csv class.csv
      warpladder report h100/s1/results.json h200/s1/results.json -o s1.html
    """
    climbs, reproductions, profiles = _sorted(files)
    if reproductions and (other := next(iter([*climbs, *profiles]), None)):
        kind = "climb" if other in climbs else "profile"
        one = next(iter(reproductions))
        raise ResultsError(
            f"{other}: is a {kind}, and {one} is a reproduced report: make a page of each kind by itself"
        )
    if not climbs and not reproductions:
        raise ResultsError(
            f"{files[0]}: is a profile, and a page wants a results file too, as 'warpladder climb' writes it"
        )
    place = out or next(iter(reproductions or climbs)).with_name("report.html")
    check_place(place, overwrite, *files)
    if csv_file is not None:
        if reproductions:
            raise ResultsError(
                f"--csv is for climbs, and {next(iter(reproductions))} is a reproduced report: leave it out"
            )
        check_place(csv_file, overwrite, place, *files)
    if reproductions:
        _side_by_side(reproductions, place)
    else:
        from ..results.report.page import write_page

        write_page(list(climbs.values()), place, _labels(list(climbs)), list(profiles.values()))
    if csv_file is not None:
        from ..results.report.ranking import as_csv

        write(csv_file, as_csv(list(climbs.values()), _labels(list(climbs))).encode())
        click.echo(f"As CSV: {csv_file}")
    click.echo(f"Open this: {place}")


def _sorted(files: tuple[Path, ...]) -> tuple[dict[Path, Results], dict[Path, Reproduction], dict[Path, Profile]]:
    """Files by their kind: climbs, reproductions and profiles."""
    from ..appendix.reproduce.results import Reproduction
    from ..results.profiled import Profile

    climbs: dict[Path, Results] = {}
    reproductions: dict[Path, Reproduction] = {}
    profiles: dict[Path, Profile] = {}
    for file in files:
        found = _read(file)
        if file in climbs or file in reproductions:
            raise ResultsError(f"{file}: is named twice; name each results file once")
        if isinstance(found, Profile):
            profiles[file] = found
        elif isinstance(found, Reproduction):
            reproductions[file] = found
        else:
            climbs[file] = found
    return climbs, reproductions, profiles


def _side_by_side(found: dict[Path, Reproduction], place: Path) -> None:
    """Write the page of one reproduction, or of several next to each other."""
    from ..appendix.reproduce.report.page import write_page
    from ..appendix.reproduce.report.side_by_side import check_alike
    from ..appendix.reproduce.report.terminal import show_several
    from .shared.console import console

    check_alike(list(found.values()), [str(file) for file in found])
    labels = _labels(list(found)) if len(found) > 1 else []
    write_page(list(found.values()), place, labels)
    if labels:
        show_several(list(found.values()), labels, console())


def _read(file: Path) -> Results | Profile | Reproduction:
    """Read a results file: of a climb, of a profile, or of a reproduced report."""
    from ..appendix.reproduce.results import Reproduction
    from ..results import Results
    from ..results.profiled import Profile
    from ..results.stored import reading

    with reading(file) as tree:
        kind = next((kind for kind in (Profile, Reproduction) if kind.is_kind(tree)), Results)
        return kind.from_tree(tree)


def _labels(files: list[Path]) -> list[str]:
    """Shortest distinct parts of the files' paths, without their common end: "h100" and "h200" for
    h100/s1/results.json and h200/s1/results.json.
    """
    full = [file.resolve().parts for file in files]
    for count in range(1, max(map(len, full)) + 1):
        ends = [parts[-count:] for parts in full]
        if len(set(ends)) == len(ends):
            while len(ends) > 1 and len({end[-1] for end in ends}) == 1:
                ends = [end[:-1] for end in ends]
            return ["/".join(end) for end in ends]
    return [str(file) for file in files]
