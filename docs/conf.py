"""Sphinx: MyST pages, the API from docstrings, nothing fetched from elsewhere."""

from __future__ import annotations

import softrobust

project = "softrobust"
copyright = "softrobust developers"  # noqa: A001 (Sphinx's name)
version = release = softrobust.__version__
# Mathematics is written in Unicode, so that pages read offline and in a terminal: no MathJax.
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository beside the docs
exclude_patterns = ["_build", "results/*"]
html_theme = "furo"
html_title = "softrobust"
html_static_path: list[str] = []
html_show_sourcelink = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and types are in the docstrings
napoleon_use_ivar = True


def setup(app):  # type: ignore[no-untyped-def]
    """Bars are absolute values in docstrings, not substitutions."""

    def escape(app, what, name, thing, options, lines):  # type: ignore[no-untyped-def]
        lines[:] = [line.replace("|", r"\|") if "``" not in line else line for line in lines]

    app.connect("autodoc-process-docstring", escape)
