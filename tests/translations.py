"""The catalogues of the pages' strings: ``python tests/translations.py`` brings them in step.

It collects every string that is wrapped for translation into ``limbic.pot``, brings each
``locale/*/LC_MESSAGES/limbic.po`` in step with it (what is new has no translation yet, what is
gone goes), and compiles that into the ``limbic.mo`` that pages read. The same code gives the same
files: no dates, no line numbers.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from io import BytesIO
from os import PathLike
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("datasette_limbic", "templates")
"""Where strings are. The templates of the package are a link to those at the top."""
LOCALE = ROOT / "datasette_limbic" / "locale"
TEMPLATE = LOCALE / "limbic.pot"
KEYWORDS = {**DEFAULT_KEYWORDS, "marked": None, "counting": (1, 2)}
# fields of the header that say when, by whom, and with which version of what
_CHURN = tuple(
    f'"{name}'.encode()
    for name in (
        "Generated-By",
        "Language-Team",
        "Last-Translator",
        "PO-Revision-Date",
        "POT-Creation-Date",
        "Project-Id-Version",
        "Report-Msgid-Bugs-To",
    )
)
_WIDTH = 96


def collected() -> Catalog:
    """Every string of the code and of the templates."""
    with (ROOT / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    found = Catalog(project="datasette-limbic", charset="utf-8", fuzzy=False)
    found.header_comment = "# Strings of the pages of datasette-limbic. See docs/contributing.md."
    for _, _, message, _, context in extract_from_dir(
        ROOT, methods, options, KEYWORDS, directory_filter=_is_ours
    ):
        found.add(message, context=context)
    return found


def _is_ours(folder: str | PathLike[str]) -> bool:
    return Path(folder).relative_to(ROOT).parts[0] in FOLDERS


def languages() -> dict[str, Path]:
    """Language → its catalogue as people edit it."""
    return {path.parts[-3]: path for path in sorted(LOCALE.glob("*/LC_MESSAGES/limbic.po"))}


def read(path: Path, language: str | None = None) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=language)


def text_of(catalogue: Catalog) -> bytes:
    """A catalogue as a file, in order of its strings."""
    written = BytesIO()
    write_po(
        written, catalogue, width=_WIDTH, no_location=True, sort_output=True, ignore_obsolete=True
    )
    lines = written.getvalue().splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(_CHURN))


def in_step(path: Path, language: str, template: Catalog) -> Catalog:
    """The catalogue at ``path`` with exactly the strings of ``template``."""
    found = read(path, language)
    found.update(template, no_fuzzy_matching=True)
    return found


def compiled(catalogue: Catalog) -> bytes:
    """As ``gettext`` reads it."""
    written = BytesIO()
    # Babel writes when, and nobody reads it
    catalogue.creation_date = catalogue.revision_date = datetime(2000, 1, 1, tzinfo=timezone.utc)
    write_mo(written, catalogue)
    return written.getvalue()


def main() -> int:
    """Write the files; 1 where a translation is lacking, which is named."""
    template = collected()
    TEMPLATE.write_bytes(text_of(template))
    lacking = 0
    for language, path in languages().items():
        found = in_step(path, language, template)
        path.write_bytes(text_of(found))
        # read again: without what is no longer a string
        path.with_suffix(".mo").write_bytes(compiled(read(path, language)))
        for message in found:
            if message.id and (not all(forms(message.string)) or message.fuzzy):
                lacking += 1
                print(f"{path.relative_to(ROOT)}: no translation of {message.id!r}")
    return 1 if lacking else 0


def forms(text: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The forms of a message, one or, where it counts something, several."""
    return tuple(text) if isinstance(text, (tuple, list)) else (text or "",)


if __name__ == "__main__":
    sys.exit(main())
