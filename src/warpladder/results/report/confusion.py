"""Picture of the confusion matrix."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sys
import tempfile

from ..classes import ClassScores

#: Kinds of picture, by the suffix of their files.
KINDS = ("svg", "png")


def draw_confusion(scores: ClassScores, title: str, kind: str) -> bytes:
    """Bytes of a picture: a square for each pair of classes, darker for a larger share of the row.

    Parameters
    ----------
    scores : ClassScores
    title : str
    kind : str
        "svg" or "png".
    """
    _keep_out_of_home()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    classes = len(scores.names)
    side = max(3.2, 0.55 * classes + 1.6)
    rows = [
        [count / (total or 1) for count in row] for row, total in zip(scores.confusion, scores.support, strict=True)
    ]
    with rc_context({"svg.hashsalt": "warpladder", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.subplots()
        axes.imshow(rows, cmap="Blues", vmin=0, vmax=1)
        for place, name in ((axes.set_xticks, "taken for"), (axes.set_yticks, "is")):
            place(range(classes), scores.names)
            (axes.set_xlabel if name == "taken for" else axes.set_ylabel)(name)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(title, fontsize="medium")
        if classes <= 30:
            for i, row in enumerate(scores.confusion):
                for j, count in enumerate(row):
                    axes.text(
                        j,
                        i,
                        f"{count}",
                        ha="center",
                        va="center",
                        fontsize="small",
                        color="white" if rows[i][j] > 0.5 else "black",
                    )
        out = io.BytesIO()
        figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    return out.getvalue()


def _keep_out_of_home() -> None:
    """Set a temporary folder for matplotlib's settings and font lists, unless the user or program has set one: the home
    folder may be read-only or missing.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR"):
        return
    folder = tempfile.mkdtemp(prefix="warpladder-matplotlib-")
    os.environ["MPLCONFIGDIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
