"""Sphinx: `python -m sphinx -W docs <out>` builds these pages and the reference of the public names."""

from importlib.metadata import version as installed

project = "warpladder"
author = "The warpladder authors"
version = release = installed("warpladder")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "warpladder"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
