"""The code in docs/frontends.md and examples/, as a reader would copy it, but with the address of a test's server."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ADDRESS = "http://127.0.0.1:8000"
"""What the documents write: where `make demo` serves."""


def code_of(document: str, language: str, url: str, *, section: str = "") -> list[str]:
    """Return the fenced blocks of a language.

    Args:
        document: the file, from the project's root on.
        language: as behind the fence.
        url: what stands for the documents' address.
        section: the heading above the blocks, with its hashes; "" for the whole file.
    """
    text = (ROOT / document).read_text()
    if section:
        level = section.partition(" ")[0]
        _, found, text = text.partition(f"\n{section}\n")
        assert found, f"{document} has no section {section!r}"
        text = re.split(rf"^{level} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(rf"^```{re.escape(language)}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block.replace(ADDRESS, url) for block in blocks]
