"""Which axis of images holds their channels."""

from __future__ import annotations

#: Numbers of channels that pictures have: grey, RGB, RGB with transparency.
CHANNELS = (1, 3, 4)


def looks_nhwc(shape: tuple[int, ...]) -> bool:
    """Whether (n, h, w, c) is a likelier reading of a shape than (n, c, h, w): few channels last, and not first."""
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS and shape[2] not in CHANNELS


def nhwc_hint(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about samples of this shape where a net wants samples of another, if their channels are last; empty
    where they are not.

    Parameters
    ----------
    shape : tuple of int
        Of the array, samples first.
    wanted : tuple of int
        Of one sample, (channels, height, width).
    """
    if len(shape) == 4 and len(wanted) == 3 and (shape[3], shape[1], shape[2]) == wanted:
        return ": looks like NHWC (n, h, w, c), give (n, c, h, w) by x.transpose(0, 3, 1, 2)"
    return ""
