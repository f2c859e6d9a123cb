"""A stored journal with everything in it: parallel tools, a refused handoff, a lost worker, a suspension."""

import json
from pathlib import Path

from ekiden.shared.records import Entry

FILE = Path(__file__).parent / "data" / "journal.json"
STORED = json.loads(FILE.read_text("utf-8"))
JOB: str = STORED["job"]


def stored_journal() -> list[Entry]:
    return [Entry.model_validate(entry) for entry in STORED["entries"]]
