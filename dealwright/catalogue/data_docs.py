"""Great Expectations' Data Docs as two pages that open without internet and are equal for equal results.

The library's own pages load their style and scripts from the web, and carry times and random ids.
"""

import re
from pathlib import Path

from great_expectations.core import ExpectationSuite
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.render.components import RenderedDocumentContent
from great_expectations.render.renderer.page_renderer import (
    ExpectationSuitePageRenderer,
    ValidationResultsPageRenderer,
)
from great_expectations.render.view.view import DefaultJinjaPageView

from dealwright.files import write_text

# What needs the web or a script: scripts, style sheets, the icon, the logo, the footer, handlers, images in styles.
_REMOTE = re.compile(
    r"<script\b.*?</script>|<link\b[^>]*>|<img\b[^>]*>|<footer\b.*?</footer>"
    r"|\sonclick=\"[^\"]*\"|background: url\([^;]*;",
    re.DOTALL,
)
_RANDOM_ID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LINKS = {
    "../../../../index.html": "index.html",
    "../../../../expectations/catalogue.html": "expectations.html",
    "../index.html": "index.html",
    "__none__": "not recorded",
}
_STYLE = """
<style>
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.45 system-ui, sans-serif; color: #222; }
a { color: #06c; }
.row { display: flex; flex-wrap: wrap; }
.col-12 { flex: 0 0 100%; max-width: 100%; }
.col-md-2 { flex: 0 0 16%; min-width: 12em; }
.col-md-10 { flex: 1; min-width: 20em; padding: 0 1.5em; }
.container-fluid { padding: .5em 1em; }
.ge-section { margin: 0; padding: 0 0 1em; }
.navbar { padding: .5em 1em; }
.sticky-top, .card.mb-3, [data-toggle=collapse] { display: none; }
.nav { list-style: none; margin: 0; padding: 0; }
.card { border: 1px solid #ddd; border-radius: 4px; margin: .5em 0; padding: .5em; }
.alert { background: #eef0f2; border-radius: 4px; padding: .6em 1em; margin: .6em 0; }
.badge { background: #5a6570; color: #fff; border-radius: 3px; padding: .05em .45em; font-size: 90%; }
.table { border-collapse: collapse; width: 100%; margin: .4em 0 1em; }
.table td, .table th { border: 1px solid #ddd; padding: .35em .6em; text-align: left; vertical-align: top; }
.text-success { color: #14713d; } .text-danger { color: #b3261e; } .text-warning { color: #8a5a00; }
.fa-check-circle::before { content: "\\2713"; } .fa-times::before, .fa-times-circle::before { content: "\\2717"; }
.fa-exclamation-triangle::before { content: "!"; } .fas { font-style: normal; font-weight: bold; }
h4, h5, h6 { margin: .3em 0; font-size: 110%; }
p, ul { margin: .3em 0; }
</style>
"""


def write_pages(result: ExpectationSuiteValidationResult, suite: ExpectationSuite, folder: Path) -> None:
    """Write the page of the result (index.html) and the page of the contract (expectations.html)."""
    result.meta = {
        "great_expectations_version": result.meta["great_expectations_version"],
        "run_id": {"run_name": suite.name},
    }
    write_text(folder / "index.html", _page(ValidationResultsPageRenderer().render(result)))
    write_text(folder / "expectations.html", _page(ExpectationSuitePageRenderer().render(suite)))


def _page(content: RenderedDocumentContent | list[RenderedDocumentContent]) -> str:
    html = _REMOTE.sub("", DefaultJinjaPageView().render(content))
    for before, after in _LINKS.items():
        html = html.replace(before, after)
    html = html.replace("</head>", f"{_STYLE}</head>", 1)
    return "\n".join(line.rstrip() for line in _RANDOM_ID.sub("", html).splitlines() if line.strip()) + "\n"
