"""A stored journal with everything in it: parallel tools, a refused handoff, a lost worker, a suspension."""

import json
from pathlib import Path

from ekiden.shared.records import Entry, decode_record

FILE = Path(__file__).parent / "data" / "journal.json"
STORED = json.loads(FILE.read_text("utf-8"))
JOB: str = STORED["job"]


_ENTRIES = [Entry(**{**entry, "record": decode_record(json.dumps(entry["record"]))}) for entry in STORED["entries"]]


def stored_journal() -> list[Entry]:
    return list(_ENTRIES)
