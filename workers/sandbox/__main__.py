"""``python -m ekiden.workers.sandbox``: try what would confine commands here, and say it as JSON.

``ekiden doctor`` runs it, since the dispatcher's side imports nothing of the workers'.
"""

import asyncio
import json
import os

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import EkidenError
from ekiden.shared.process_secrets import withdraw
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import say
from ekiden.workers.sandbox.choice import choose

__all__ = ["main"]


def main() -> None:
    """Print ``{told}``, or ``{problem}``."""
    try:
        withdraw()
        settings = load_settings()
        sandbox = asyncio.run(choose(settings, for_tools(os.environ, settings.tools_env)))
    except EkidenError as error:
        say(json.dumps({"problem": str(error)}))
    else:
        say(json.dumps({"told": sandbox.told}))


if __name__ == "__main__":
    main()
