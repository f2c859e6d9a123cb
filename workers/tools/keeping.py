"""What of a result is too much for a model, and the files that came with it: kept by reference, beside the journal."""

from collections.abc import Sequence

import structlog

from ekiden.shared.errors import EkidenError
from ekiden.shared.messages import Artifact
from ekiden.workers.tools.parsing import shortened
from ekiden.workers.tools.running import MadeFile, Outputs, size_of

__all__ = ["READER", "fitted", "kept"]

READER = "read_output"
"""The tool that reads what is kept."""
_MOST_KEPT = 5_000_000
"""Characters of one result."""

log = structlog.get_logger(__name__)


async def fitted(text: str, most: int, outputs: Outputs | None) -> tuple[str, str]:
    """Return what a model is given of ``text``, at most about ``most`` characters, and the reference of the whole.

    Both ends are given: of a file the beginning tells most, of a command the end.
    """
    if len(text) <= most:
        return text, ""
    whole = shortened(text, _MOST_KEPT)
    if outputs is None or (ref := await _keep(whole, outputs)) is None:
        return shortened(text, most), ""
    first, last = most * 2 // 3, len(whole) - most // 3
    note = (
        f"(cut: characters {first:,} to {last:,} of {len(whole):,} are left out here; "
        f'{READER} with ref="{ref}" and offset={first} has them)'
    )
    return f"{whole[:first]}\n{note}\n{whole[last:]}", ref


async def kept(made: Sequence[MadeFile], outputs: Outputs | None) -> tuple[list[Artifact], str]:
    """Keep the files of a call; return what names them, and the lines that tell the model."""
    found: list[Artifact] = []
    lines: list[str] = []
    for one in made:
        ref = await _keep(one.content, outputs) if outputs is not None else None
        if ref is None:
            lines.append(f"(artifact {one.name} is lost: nothing more can be kept for this job)")
            continue
        found.append(Artifact(name=one.name, mime=one.mime, size=size_of(one.content), ref=ref))
        how = f', {READER} with ref="{ref}" reads it' if isinstance(one.content, str) else ""
        lines.append(f"(artifact {one.name}: {one.mime}, {found[-1].size:,} bytes{how})")
    return found, "\n".join(lines)


async def _keep(content: str | bytes, outputs: Outputs) -> str | None:
    try:
        return await outputs.keep(content)
    except EkidenError as error:  # of an outage others tell
        log.debug("output_not_kept", error=str(error))
        return None
