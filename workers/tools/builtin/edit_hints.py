"""Why an edit does not apply: texts that let a model give the right ``old`` at its next try."""

import re

from ekiden.shared.suggestions import nearest
from ekiden.workers.tools.builtin.text_file import TextFile, lines_of

__all__ = ["why_ambiguous", "why_missing"]

_NUMBERED = re.compile(r"\s*\d+\t")
_MAX_LINES = 20_000
_MAX_CHARS = 200
_MAX_SHOWN = 10


def why_ambiguous(path: str, file: TextFile, starts: list[int]) -> str:
    """Explain that ``old`` occurs at each of the offsets ``starts``."""
    lines = [str(file.content.count("\n", 0, start) + 1) for start in starts[:_MAX_SHOWN]]
    more = ", ..." if len(starts) > _MAX_SHOWN else ""
    return (
        f"'old' occurs {len(starts)} times in {path!r}, at lines {', '.join(lines)}{more}, expected once: "
        "add lines around it that make it unique, or set replace_all"
    )


def why_missing(path: str, old: str, file: TextFile) -> str:
    """Explain that ``old`` does not occur, with the lines of the file that come nearest."""
    wanted = [line.strip() for line in lines_of(old) if line.strip()]
    present = lines_of(file.printable)
    stripped = set(map(str.strip, present))
    missing = next((line for line in wanted if line not in stripped), None)
    text = f"'old' does not occur in {path!r}"
    if all(_NUMBERED.match(line) for line in lines_of(old) if line.strip()) and wanted:
        return f"{text}: leave out the line numbers and tabs that read_file puts before each line"
    if not wanted:
        return f"{text}: it is only white space; add a line around it that holds text"
    if missing is None:
        return f"{text}, though each of its lines does, with other white space or in another order:" + _shown(
            present, [line for line in present if line.strip() == wanted[0]]
        )
    return f"{text}: the file has no line {missing[:_MAX_CHARS]!r}; " + _nearest(missing, present)


def _nearest(missing: str, present: list[str]) -> str:
    by_text = {line.strip()[:_MAX_CHARS]: line for line in present[:_MAX_LINES]}
    close = nearest(missing[:_MAX_CHARS], by_text, cutoff=0.5, cpu_s=1.0)
    inside = [line for text, line in by_text.items() if missing in text][:3]
    if not (close or inside):
        return "no line is like it: read the file again"
    return "nearest lines:" + _shown(present, [by_text[text] for text in close] or inside)


def _shown(present: list[str], lines: list[str]) -> str:
    wanted = set(lines)
    numbered = [f"\n{number}\t{line[:_MAX_CHARS]}" for number, line in enumerate(present, 1) if line in wanted]
    return "".join(numbered[:_MAX_SHOWN])
