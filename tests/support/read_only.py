"""Reads all tests without running one, so that Python compiles what they import, and keeps it: `scripts/test` runs this
while torch is being installed.

python tests/support/read_only.py
"""

from __future__ import annotations

import sys

import fresh
import pytest

if __name__ == "__main__":
    fresh.HIDDEN.add("torch")  # of which no more than a part may be there
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--collect-only"]))
