import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.environments import for_tools
from ekiden.workers.tools.base import Tool, ToolContext
from ekiden.workers.tools.builtin import safe_open

Use = Callable[..., str]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """The job's folder, inside the workspace root; beside the root lies what no tool may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    folder = tmp_path / "root" / "job"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def context(cwd: Path) -> ToolContext:
    env = for_tools(os.environ)
    return ToolContext(job="a" * 16 + ".1", leg=1, agent="code-fixer", call_id="c1", cwd=cwd, root=cwd.parent, env=env)


@pytest.fixture
def use(context: ToolContext) -> Use:
    """Call a synchronous tool's function with arguments as a model gives them."""

    def call(tool: Tool, **args: Any) -> str:
        result = tool.function(tool.arguments.model_validate(args), context)
        assert isinstance(result, str)
        return result

    return call


@pytest.fixture(params=["openat2", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open what lies below a folder."""
    if request.param == "step by step":
        monkeypatch.setattr(safe_open, "_has_openat2", lambda: False)
    elif not safe_open._has_openat2():
        pytest.skip("this system has no openat2, or a sandbox forbids it")
    return str(request.param)
