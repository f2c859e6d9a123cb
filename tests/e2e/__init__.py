"""The command line and its processes, end to end."""
