"""``ekiden agents``: agent files, found, made, changed, checked and run."""
