"""What a system says of itself, read for a page: the sentence of each claim, and the prose around it.

A claim's sentence is the bullet of its system's text that begins with the claim's name between backticks, its kind in
brackets, and a colon; several names may share one sentence. `Claim `name`: sentence` is read too.
"""

import dataclasses
import re
from collections.abc import Sequence

_NAME = re.compile(r"`([A-Za-z0-9_-]+)`")
_ALONE = re.compile(r"[Cc]laim `([A-Za-z0-9_-]+)`:\s+(.+)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a text: `kind` is "paragraph", "bullets" or "formula"; `parts` has one entry a bullet, else one."""

    kind: str
    parts: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """The text in paragraphs, lists of bullets, and formulas, which are indented.

    >>> [block.kind for block in blocks("A\\nb.\\n\\n    x = y\\n\\n- `c` (rate): d\\n  e.")]
    ['paragraph', 'formula', 'bullets']
    """
    made: list[Block] = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            made.append(Block(kind="formula", parts=("\n".join(line[4:] for line in lines),)))
            continue
        first = next((i for i, line in enumerate(lines) if line.startswith("- ")), len(lines))
        if first:
            made.append(Block(kind="paragraph", parts=(_joined(lines[:first]),)))
        bullets: list[list[str]] = []
        for line in lines[first:]:
            if line.startswith("- "):
                bullets.append([line[2:]])
            else:
                bullets[-1].append(line)
        if bullets:
            made.append(Block(kind="bullets", parts=tuple(map(_joined, bullets))))
    return made


def sentences(text: str) -> dict[str, str]:
    """The sentence of each claim that the text states, by the claim's name.

    >>> sentences("Claims.\\n- `a` (x), `b` (rate; `u^2`): both\\n  fall: fast.")
    {'a': 'both fall: fast.', 'b': 'both fall: fast.'}
    """
    found: dict[str, str] = {}
    for block in blocks(text):
        for part in block.parts:
            if block.kind == "paragraph" and (alone := _ALONE.match(part)):
                found.setdefault(alone[1], alone[2])
            if block.kind == "bullets" and part.startswith("`"):
                head, sentence = _split(part)
                for name in _NAME.findall(head):
                    found.setdefault(name, sentence)
    return found


def _split(bullet: str) -> tuple[str, str]:
    """The head without what stands in brackets, and what follows the first colon outside brackets and backticks."""
    depth, code, head = 0, False, []
    for index, letter in enumerate(bullet):
        if letter == "`":
            code = not code
        elif not code and letter in "()":
            depth += 1 if letter == "(" else -1
        if letter == ":" and not code and depth == 0:
            return "".join(head), bullet[index + 1 :].strip()
        if depth == 0:
            head.append(letter)
    return "", bullet


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines)
