"""Class scores and a confusion matrix as HTML tables."""

from __future__ import annotations

from html import escape

from ..classes import ClassScores
from .html import table


def scores(found: ClassScores, label: str) -> str:
    """HTML tables of precision, recall and F1 of each class, and of the confusion matrix: a row for each true class, a
    column for each predicted class.
    """
    rows = [
        ("rung", [escape(name), f"{100 * precision:.1f}", f"{100 * recall:.1f}", f"{100 * f1:.1f}", f"{support:,}"])
        for name, precision, recall, f1, support in zip(
            found.names, found.precision, found.recall, found.f1, found.support, strict=True
        )
    ]
    own = table(label, ["class", "precision, %", "recall, %", "F1, %", "samples"], rows)
    taken = [
        (
            "rung",
            [
                escape(name),
                *(
                    f'<span style="opacity:{0.45 + 0.55 * count / max(1, max(row)):.2f}">{count:,}</span>'
                    for count in row
                ),
            ],
        )
        for name, row in zip(found.names, found.confusion, strict=True)
    ]
    matrix = table(
        f"{label}: rows are what samples are, columns what they were taken for", ["", *map(escape, found.names)], taken
    )
    return own + matrix
