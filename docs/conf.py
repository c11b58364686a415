"""Sphinx: `python -m sphinx -W docs <out>` builds these pages; docs/make_api.py writes the reference among them."""

from importlib.metadata import version as installed

project = "warpladder"
author = "The warpladder authors"
version = release = installed("warpladder")
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "warpladder"
exclude_patterns = ["_build"]
