"""The picture of a comparison: a bar for each pair of outputs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.diffing import Difference

_WIDTH: Final = 640
_BAR: Final = 592
_ROW: Final = 84
_TOP: Final = 58
_MARGIN: Final = 24
_KINDS: Final = ("equal", "different", "missing", "extra")
_STYLE: Final = """\
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1c2733}
.title{font-weight:bold}
.equal{fill:#3d8b57}.different{fill:#b9822c}.missing{fill:#b03a3a}.extra{fill:#3b73b9}"""


def picture(title: str, differences: Sequence[Difference]) -> str:
    """Return the text of the picture.

    Args:
        title: what was compared with what.
        differences: one for each pair of outputs.
    """
    height = _TOP + _ROW * len(differences) + _MARGIN // 2
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}">'
        ),
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{_MARGIN}" y="24">{escape(title)}</text>',
    ]
    for number, kind in enumerate(_KINDS):
        x = _MARGIN + number * 120
        parts.append(f'<rect class="{kind}" x="{x}" y="36" width="12" height="12"/>')
        parts.append(f'<text x="{x + 18}" y="46">{kind}</text>')
    for number, one in enumerate(differences):
        parts += _bar(one, _TOP + number * _ROW)
    return "\n".join([*parts, "</svg>\n"])


def _bar(one: Difference, top: int) -> list[str]:
    counts = {kind: int(getattr(one, kind)) for kind in _KINDS}
    total = sum(counts.values())
    parts = [
        (
            f'<text x="{_MARGIN}" y="{top + 22}">{escape(one.old_topic)} and '
            f"{escape(one.new_topic)}</text>"
        )
    ]
    # The smallest difference is to be seen beside a million equal keys.
    widths = {kind: max(3.0, _BAR * n / total) for kind, n in counts.items() if n}
    if widths:
        widths[max(widths, key=lambda kind: widths[kind])] -= sum(widths.values()) - _BAR
    x = float(_MARGIN)
    for kind, width in widths.items():
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{top + 30}" width="{width:.1f}" height="20"/>'
        )
        x += width
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    parts.append(f'<text x="{_MARGIN}" y="{top + 66}">{said or "no key"}</text>')
    return parts
