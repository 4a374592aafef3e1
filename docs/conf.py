"""How Sphinx builds these pages: ``make docs``."""

import inspect
import os
import re
import sys
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = str(ROOT)  # tutorials run this checkout
# Tutorials call bdr-stan, whether or not the environment of this interpreter is activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from builders.public_names import inner_names  # noqa: E402

import bdr_stan  # noqa: E402

project = "bdr_stan"
author = "bdr_stan developers"
project_copyright = "2026, the bdr_stan developers"
version = release = bdr_stan.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "dev"]  # dev: for developers, read in the repository
# Pages of experiments are linked from validation/index, and stay out of the sidebar.
suppress_warnings = ["toc.not_included"]
templates_path = ["_templates"]

html_theme = "furo"
html_title = f"bdr_stan {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False
html_search_scorer = str(ROOT / "docs/search_order.js")
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

default_role = "py:obj"  # names between single backticks, links where they are public
autosummary_generate = True
autodoc_typehints = "none"  # docstrings say types and shapes in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_merge_streams = True
nb_output_stderr = "remove"  # progress, and warnings that the report repeats


def _is_reachable(site):
    try:
        with urlopen(f"{site}objects.inv", timeout=5):
            return True
    except OSError:
        return False


# Without a network names of other packages are no links, and the pages are whole.
intersphinx_mapping = {
    name: (site, None)
    for name, site in {
        "numpy": "https://numpy.org/doc/stable/",
        "sklearn": "https://scikit-learn.org/stable/",
        "arviz": "https://python.arviz.org/en/stable/",
        "cmdstanpy": "https://mc-stan.org/cmdstanpy/",
    }.items()
    if _is_reachable(site)
}


def _link_pages(app, docname, source):
    """On the site the benchmarks are a page; other pages for developers are only named."""
    text = re.sub(r"\]\(((?:\.\./)*)\.\./benchmarks/README\.md", r"](\1benchmarks.md", source[0])
    source[0] = re.sub(r"\[([^]]*)\]\((?:\.\./)+(?:CONTRIBUTING|CHANGELOG)\.md[^)]*\)", r"\1", text)


def _keep_bars(app, what, name, obj, options, lines):
    """In docstrings |x| is an absolute value, in reStructuredText a substitution."""
    lines[:] = [
        line
        if line.lstrip().startswith((">>>", "...")) or "``" in line
        else line.replace("|", r"\|")
        for line in lines
    ]


def _inherit_parameters(app, what, name, obj, options, lines):
    """A class without a section of parameters shows that of its nearest base that has one."""
    if what != "class" or "Parameters" in lines:
        return
    for base in obj.__mro__[1:]:
        doc = inspect.getdoc(base) if base.__module__.startswith("bdr_stan") else None
        section = re.search(r"^Parameters\n-+\n.*?\n(?=\n\S[^\n]*\n---|\Z)", doc or "", re.M | re.S)
        if section:
            heads = [k - 1 for k, line in enumerate(lines) if re.fullmatch("-{3,}", line)]
            at = heads[0] if heads else len(lines)
            lines[at:at] = [*section[0].splitlines(), ""]
            return


INNER_NAMES = inner_names()
MODULES_WITH_INNER_NAMES = (
    *("bdr_stan.bags.", "bdr_stan.estimators.", "bdr_stan.questions."),
    *("numpy", "scipy"),
)


def _skip(app, what, name, obj, skip, options):
    """Skip inner names, and what is inherited from scikit-learn or skpro, which describe it."""
    found = getattr(obj, "fget", None) or obj
    module = getattr(found, "__module__", None) or type(found).__module__
    inner = name in INNER_NAMES and module.startswith(MODULES_WITH_INNER_NAMES)
    return True if inner or module.startswith(("sklearn", "skpro", "skbase")) else None


def setup(app):
    app.connect("source-read", _link_pages)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _inherit_parameters, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", _keep_bars)
