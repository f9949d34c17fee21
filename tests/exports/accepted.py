"""Do validators that others wrote accept the exports in these folders? Prints what is refused, a line each.

OSCAL by compliance-trestle, SARIF by its JSON schema, JUnit by the schema of Jenkins, Markdown as GitHub's own parser
renders it, CSV by Python's reader. Usage: accepted.py FOLDER...
"""

import argparse
import csv
import html.parser
import json
import pathlib
import sys

import cmarkgfm
import jsonschema
import xmlschema
from trestle.common import const
from trestle.core import validator_factory
from trestle.oscal.assessment_results import AssessmentResults

SCHEMAS = pathlib.Path(__file__).parent / "schemas"
MARKDOWN_TAGS = {"h2", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong", "code"}
PAGE_TAGS = MARKDOWN_TAGS | {
    "html", "head", "meta", "title", "style", "body", "h1", "div", "span", "br", "details", "summary", "a"
}
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def schema_of_sarif():
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    for name in ("uri", "uri-reference", "date-time"):
        assert name in kind.FORMAT_CHECKER.checkers, f"nothing checks the format {name}"
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


SARIF = schema_of_sarif()
JUNIT = xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")
TRESTLE = validator_factory.validator_factory.get(argparse.Namespace(mode=const.VAL_MODE_ALL))


class Tags(html.parser.HTMLParser):
    """What a page would do besides showing text."""

    def __init__(self, allowed):
        super().__init__()
        self.allowed = allowed
        self.wrong = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.allowed:
            self.wrong.append(f"<{tag}>")
        for name, value in attributes:
            if name.startswith("on") or (name in ("href", "src") and ":" in (value or "")):
                self.wrong.append(f"<{tag} {name}={value}>")


def tags(text, allowed):
    parser = Tags(allowed)
    parser.feed(text)
    parser.close()
    return parser.wrong


def sarif(path):
    for error in SARIF.iter_errors(json.loads(path.read_text())):
        yield f"{error.json_path}: {error.message[:300]}"


def junit(path):
    for error in JUNIT.iter_errors(str(path)):
        yield f"{error.path}: {error.reason}"


def oscal(path):
    try:
        model = AssessmentResults.oscal_read(path)
    except Exception as error:  # trestle has a kind of its own for each mistake
        yield str(error)[:1000]
        return
    if not TRESTLE.model_is_valid(model, True, None):
        yield "trestle's validators refuse it"
    version = json.loads(path.read_text())["assessment-results"]["metadata"]["oscal-version"]
    if not version.startswith("1.2."):
        yield f"it is OSCAL {version}"


def markdown(path):
    text = path.read_text()
    if len(text.encode()) > 1024 * 1024 - 2:
        yield f"GitHub drops a summary of {len(text)} characters"
    # The flags let everything through that a renderer might; what is left out by a filter must not be needed.
    flags = cmarkgfm.Options.CMARK_OPT_UNSAFE
    rendered = cmarkgfm.markdown_to_html_with_extensions(
        text, options=flags, extensions=["table", "autolink", "strikethrough", "tasklist"]
    )
    yield from tags(rendered, MARKDOWN_TAGS)


def page(path):
    yield from tags(path.read_text(), PAGE_TAGS)


def table(path):
    with path.open(newline="") as file:
        rows = list(csv.reader(file, strict=True))
    for row in rows:
        if len(row) != len(rows[0]):
            yield f"{len(row)} fields where the header has {len(rows[0])}"
        for field in row:
            if field.startswith(FORMULA):
                yield f"a spreadsheet takes this for a formula: {field!r}"


CHECKS = {
    "results.sarif": sarif,
    "junit.xml": junit,
    "oscal.json": oscal,
    "summary.md": markdown,
    "controls.csv": table,
    "controls.html": page,
}


def main(folders):
    refused = 0
    for folder in map(pathlib.Path, folders):
        for name, check in CHECKS.items():
            path = folder / name
            if not path.exists():
                # A page is printed where somebody asks for one.
                if name != "controls.html":
                    refused += 1
                    print(f"{path}: is missing")
                continue
            for because in check(path):
                refused += 1
                print(f"{path}: {because}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
