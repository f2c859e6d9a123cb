"""Jobs played again: what models and tools gave is taken from a recording, all else is decided anew."""
