"""Measured figures of a reproduction that are cut off or are something else: one line, whatever the experiment."""

from __future__ import annotations

import pytest

from warpladder.appendix.reproduce.claims import Claim
from warpladder.appendix.reproduce.definition import NAMES, definition
from warpladder.appendix.reproduce.experiments import file_of
from warpladder.errors import ResultsError, WarpladderError


@pytest.mark.parametrize("name", NAMES)
def test_damaged_figures_are_one_line(name, tmp_path):
    for each, experiment in definition(name).experiments.items():
        for content in (b"", b'{"runs": [', b"null", b"[]", b"{}", b'{"absent": 3}'):
            for rung in ("", *getattr(experiment, "rungs", ())):
                file_of(each, tmp_path, rung).write_bytes(content)
            file_of(f"{each}.absent", tmp_path).write_bytes(content)
            try:
                experiment.found(each, tmp_path)
            except WarpladderError as error:
                assert "\n" not in str(error) and str(tmp_path) in str(error)


def test_a_verdict_that_is_none_is_one_line():
    with pytest.raises(ResultsError, match="claim 'It is fast': there is no verdict 'perhaps'"):
        Claim("It is fast", verdict="perhaps")
