"""How ``make docs`` builds the pages, and a reference from the docstrings, with Sphinx."""

from importlib.metadata import version as version_of
from pathlib import Path

project = "pinets"
version = release = version_of("pinets")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "README.md"]  # the last is what index.md begins with, see below
suppress_warnings = ["ref.python"]  # classes of one name in several packages, such as Plan

html_theme = "furo"
html_title = f"pinets {release}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
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


def begin_with_readme(app, docname, source):
    """The first page is README.md, which stays as GitHub shows it, and then index.md with what the sidebar lists."""
    if docname == "index":
        readme = Path(app.srcdir, "README.md").read_text(encoding="utf-8")
        source[0] = readme.replace("../CONTRIBUTING.md", "contributing.md") + source[0]


def setup(app):
    app.connect("source-read", begin_with_readme)
