"""Names of arguments of the tools that workers ship with: ours, and what other programs call them."""

__all__ = ["FOREIGN_ARGUMENTS", "OWN_ARGUMENTS"]

_FILE = {"path": "file_path absolute_path filePath target_file"}
_FOLDER = {"path": "dir_path directory folder"}
FOREIGN_ARGUMENTS = {
    "read_file": _FILE,
    "write_file": {**_FILE, "content": "contents file_text"},
    "edit_file": {**_FILE, "old": "old_string oldString old_str", "new": "new_string newString new_str"},
    "delete_file": _FILE,
    "read_many_files": {**_FOLDER, "include": "paths"},
    "ls": _FOLDER,
    "glob": _FOLDER,
    "grep": {**_FOLDER, "include": "glob"},
    "bash": {"command": "cmd"},
}
"""By tool: an argument, and what gemini-cli, Claude Code and others call it, the first two of them by the first."""
OWN_ARGUMENTS = {
    tool: {alias: name for name, aliases in arguments.items() for alias in aliases.split()}
    for tool, arguments in FOREIGN_ARGUMENTS.items()
}
"""The other way round: by tool, our name of each."""
