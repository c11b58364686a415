"""`warpladder svm`: fits a support vector machine on features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from ..show import percent
from .shared.console import console
from .shared.files import again, check_place, command, fresh_folder, write
from .shared.options import limit_options, out_option, overwrite_option, place_options, progress_option, rung_option
from .shared.progress import shown, stoppable
from .shared.request import load_requested

if TYPE_CHECKING:
    from ..appendix.svm import FeaturePart
    from ..appendix.svm.results import SvmResults

FILES = ("results.json", "confusion.svg", "confusion.png")


@click.command()
@click.argument("train", metavar="[FEATURES]", required=False, type=click.Path(path_type=Path))
@click.argument("test", metavar="[TEST]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--checkpoint", metavar="FILE", type=click.Path(path_type=Path), help="In place of FEATURES: a trained net, ..."
)
@click.option("--layer", metavar="N", type=int, help="... the layer whose outputs are the features, ...")
@click.option("--data", "data_name", metavar="D", help="... and the data set.")
@place_options
@rung_option("Rung or peer that computes the features; the one that trained if not given.")
@limit_options("Train on a seeded subset of N samples.", default=0)
@click.option(
    "--C",
    "cost",
    metavar="X",
    type=float,
    default=10.0,
    show_default=True,
    help="What a sample on the wrong side costs.",
)
@click.option(
    "--gamma",
    metavar="X|scale",
    default="scale",
    show_default=True,
    help="Of the kernel exp(-gamma |a - b|^2), as scikit-learn has it.",
)
@click.option(
    "--scaling",
    type=click.Choice(("standard", "none")),
    default="standard",
    show_default=True,
    help="Features are brought to mean 0 and deviation 1 each, or left as they are.",
)
@click.option(
    "--method",
    type=click.Choice(("auto", "sklearn", "blocks")),
    default="auto",
    show_default=True,
    help="scikit-learn's SVC as it is, or the kernel's matrix by products and pairs of classes side by "
    "side: auto takes the first for small sets.",
)
@click.option(
    "--device",
    type=click.Choice(("cpu", "cuda")),
    default="cpu",
    show_default=True,
    help="Where the kernel's matrix is computed.",
)
@click.option(
    "--precision",
    type=click.Choice(("float64", "float32")),
    default="float64",
    show_default=True,
    help="Of the products: float32 is faster, and one prediction in a thousand may differ from scikit-learn's.",
)
@click.option("--threads", type=int, help="CPU threads, and pairs of classes at a time; every core if not given.")
@click.option("--memory", metavar="GB", type=float, help="Memory that all of it may take; what is free if not given.")
@out_option("DIR", "Folder for results.json and the confusion matrix as a picture.")
@overwrite_option
@progress_option
@click.pass_context
def svm(
    ctx: click.Context,
    train: Path | None,
    test: Path | None,
    out: Path | None,
    overwrite: bool,
    progress: bool | None,
    **options: Any,
) -> None:
    """Fit a support vector machine with an RBF kernel on FEATURES, and score it.

    FEATURES is a file of 'warpladder features'; if it has no test samples, TEST has them. Or the features are computed
    in the same command, from a checkpoint, a layer and a data set. Features are scaled to mean 0 and deviation 1 first,
    unless --scaling is none. The predictions equal those of scikit-learn's SVC.

    \b
    Examples:
      warpladder svm features.safetensors
      warpladder svm --checkpoint cnn.safetensors --layer 4 --data digits
      warpladder svm train.npy test.npy --C 1 --gamma 0.001
    """
    from ..appendix.svm import SvmSettings, classify

    settings = SvmSettings(
        C=options["cost"],
        gamma=_gamma(options["gamma"]),
        memory=_bytes(options["memory"]),
        **{name: options[name] for name in ("scaling", "method", "device", "precision", "threads")},
    )
    if out is not None:
        _check_folder(out, overwrite, [path for path in (train, test, options["checkpoint"]) if path is not None])
    words = again(ctx, *(each.name for each in ctx.command.params if each.name not in ("out", "overwrite", "progress")))
    with stoppable(), ExitStack() as stack:
        folder = stack.enter_context(_folder(out))
        parts = _parts(ctx, train, test, options, stack)
        limit = options["limit"] if train is not None else None  # a data set is limited when it is loaded
        with shown(progress) as report:
            found = classify(
                *parts, settings, limit=limit, seed=options["seed"], progress=report, command=command("svm", *words)
            )
        found.save(folder / FILES[0])
        _show(found)
        _draw(found, folder)
        click.echo(f"All of it: {folder / FILES[0]}\nPicture: {folder / FILES[1]}, {folder / FILES[2]}")


def _parts(
    ctx: click.Context, train: Path | None, test: Path | None, options: dict[str, Any], stack: ExitStack
) -> tuple[FeaturePart, FeaturePart]:
    """Training and test features, from files or from a checkpoint."""
    from ..appendix.features import extract, open_features
    from ..appendix.svm import of_extraction, of_file
    from ..checkpoint import load
    from ..train.hidden import layer_shape

    given = {f"--{name.removesuffix('_name')}": options[name] for name in ("checkpoint", "layer", "data_name")}
    if train is not None:
        if other := [name for name, value in given.items() if value is not None]:
            raise click.UsageError(
                f"features come from a file or from a checkpoint: leave out {train} or {', '.join(other)}", ctx
            )
        first = open_features(train)
        if test is None:
            return of_file(first, "train"), of_file(first, "test")
        second = open_features(test)
        return of_file(first, "train"), of_file(second, "test" if "test" in second.parts else "train")
    if lacking := [name for name, value in given.items() if value is None]:
        raise click.UsageError(f"name a file of features, or {', '.join(lacking)}", ctx)
    trained = load(options["checkpoint"])
    layer_shape(trained.net, options["layer"])
    data = load_requested(options, trained.data, trained.config.seed)
    source = stack.enter_context(extract(trained, options["layer"], data, options["rung"]))
    return of_extraction(source, "train"), of_extraction(source, "test")


def _gamma(text: str) -> float | str:
    try:
        return text if text == "scale" else float(text)
    except ValueError:
        raise ConfigError(f"--gamma wants a number above 0 or 'scale', got {text!r}") from None


def _bytes(memory: float | None) -> int | None:
    if memory is None:
        return None
    if not 0 < memory < 1e9:
        raise ConfigError(f"--memory wants GB above 0, got {memory}")
    return round(memory * 1e9)


def _check_folder(folder: Path, overwrite: bool, used: list[Path]) -> None:
    """Create the folder, and raise an error if one of its files cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror or error}): name a folder with --out") from None
    for name in FILES:
        check_place(folder / name, overwrite, *used)


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Folder named by the user, or a new one below runs/. After an error it is removed if it is empty."""
    if wanted is not None:
        try:
            yield wanted
        except BaseException:
            with suppress(OSError):  # it holds something
                wanted.rmdir()
            raise
        return
    with fresh_folder("svm", "name a folder with --out") as folder:
        yield folder


def _draw(found: SvmResults, folder: Path) -> None:
    from ..results.report.confusion import KINDS, draw_confusion

    title = (
        f"SVM on {found.train_samples:,} x {found.width:,} features: {percent(found.test_accuracy)} of "
        f"{found.test_samples:,} right"
    )
    for kind in KINDS:
        write(folder / f"confusion.{kind}", draw_confusion(found.scores, title, kind))


def _show(found: SvmResults) -> None:
    from ..results.report.classes import CONFUSION, confusion_table, score_table

    out = console()
    out.print(score_table(found.scores, "On the test samples"))
    if (table := confusion_table(found.scores)) is not None:
        click.echo(CONFUSION)
        out.print(table)
    stages = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in found.seconds.items())
    how = (
        "scikit-learn's SVC"
        if found.method == "sklearn"
        else f"blocks, {found.workers} pairs at a time, kernel by {found.device} in {found.precision}"
    )
    features = "" if found.scaling == "standard" else "features as they are, "
    click.echo(
        f"SVM: {features}C {found.C:g}, gamma {found.gamma:.6g}, {found.support_vectors:,} support vectors "
        f"of {found.train_samples:,}; {how}"
    )
    click.echo(
        f"Seconds: {stages}; {found.total_seconds:.3g} s in all. Memory: {found.peak_bytes / 1e9:.3g} GB at most"
    )
    own, tests = percent(found.train_accuracy), percent(found.test_accuracy)
    click.echo(
        f"Accuracy: {own} of {found.train_samples:,} training samples, {tests} of {found.test_samples:,} test samples"
    )
