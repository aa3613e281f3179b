"""The code blocks of the pages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: str | Path, language: str = "sh") -> list[str]:
    """Return the blocks of one language on a page, given its name in ``docs`` or its path."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
