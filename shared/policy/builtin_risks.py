"""How risky the tools are that workers ship with: for those who judge calls without a worker."""

from ekiden.shared.risk import Risk

__all__ = ["risk_of_tool"]

_BY_RISK: dict[Risk, str] = {
    "safe": "glob grep ls read_file read_many_files read_output recall_memory set_state ask_user write_todos",
    "low": "edit_file write_file",
    "medium": "bash forget_memory git_commit save_memory web_fetch",
    "high": "delete_file",
}
_RISKS = {tool: risk for risk, tools in _BY_RISK.items() for tool in tools.split()}


def risk_of_tool(tool: str) -> Risk:
    """Return the level of a tool; that of all other tools is what their workers say, ``medium`` if nothing."""
    return _RISKS.get(tool, "medium")
