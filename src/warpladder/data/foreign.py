"""Arrays of other libraries: PyTorch's tensors, tables of pandas, lists; none of these libraries is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError


def to_numpy(values: Any, what: str) -> np.ndarray:
    """What NumPy makes of an array, a tensor (of any device, with or without a gradient), a data frame or nested lists.

    Parameters
    ----------
    values : array_like
    what : str
        What error messages call it.

    Raises
    ------
    DataError
        It is no array: rows of different length, say, or sparse.
    """
    if callable(getattr(values, "detach", None)) and callable(getattr(values, "cpu", None)):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # which NumPy lacks
            values = values.float()
    if callable(getattr(values, "toarray", None)):
        raise DataError(f"{what} is a sparse {type(values).__name__}: give {what}.toarray()")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise DataError(f"{what} cannot be made an array ({reason:.100}): give rows of one length") from None
