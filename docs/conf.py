"""How ``make docs`` builds the pages, and a reference from the docstrings, with Sphinx."""

import re
from importlib.metadata import version as version_of

from docutils import nodes

project = "pinets"
version = release = version_of("pinets")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",  # formulas without a network
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "sg_execution_times.rst", "gallery/*.ipynb"]
suppress_warnings = ["ref.python"]  # classes of one name in several packages, such as Plan

highlight_language = "none"  # blocks without a language are commands and their output

html_theme = "furo"
html_title = f"pinets {release.partition('+')[0]}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["pinets.css"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3  # links to headings work as they do on GitHub
nb_execution_mode = "off"  # the notebook carries its outputs; `make verify` runs it

autodoc_default_options = {
    "members": True,
    "imported-members": True,  # of those, what is in __all__
    "show-inheritance": True,
    # scikit-learn adds these to every estimator, with links into its own documentation
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request",
}
autodoc_inherit_docstrings = False  # torch tells of its methods itself
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all are run
    "ignore_pattern": "onnx_numpy",  # needs a file that another command writes
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
}


PAGES_OF_RESULTS = """
```{toctree}
:hidden:
:glob:

results/*
Faces as meshes (COMA), small scale, 8 numbers <results/latent-8/coma-small>
Bodies as meshes (DFAUST), small scale, 8 numbers <results/latent-8/dfaust-small>
```
"""


def link_within_the_site(app, docname, source):
    """README.md and results.md stay as GitHub shows them.

    CONTRIBUTING.md, which is outside of docs, has a page that includes it. The pages of single results hang below
    results.md, so that the side bar of other pages does not list them.
    """
    if docname == "README":
        source[0] = source[0].replace("../CONTRIBUTING.md", "contributing.md")
    if docname == "results":
        source[0] += PAGES_OF_RESULTS


def keep_numbers_together(app, doctree, docname):
    """A line does not break between a number and its unit, nor around ±."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block)):
            joined = re.sub(r"(?<=\d) (?=[%±])|(?<=\d) (?=mm\b)|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)
            if joined != text:
                text.parent.replace(text, nodes.Text(joined))


def setup(app):
    app.connect("source-read", link_within_the_site)
    app.connect("doctree-resolved", keep_numbers_together)
