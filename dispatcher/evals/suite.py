"""A suite: requests, each with what is expected of its job."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ekiden.shared import schemas
from ekiden.shared.errors import DefinitionError, InvalidRequest
from ekiden.shared.faults import fault_in, why_unreadable
from ekiden.shared.packs import pack_names
from ekiden.shared.patterns import compile_pattern
from ekiden.shared.project_folders import project_of
from ekiden.shared.yaml_places import LocatedYaml

__all__ = ["Case", "Expectations", "Suite", "Turn", "read_suite"]

_MOST_TURNS = 100


def _name(text: str) -> str:
    if not text.isprintable() or "/" in text or "\\" in text or text.startswith((".", "-")) or not text.strip():
        raise ValueError("must be usable as the name of a file: printable, without '/' and no '.' in front")
    return text


def _pattern(text: str) -> str:
    try:
        compile_pattern(text)
    except DefinitionError as error:
        raise ValueError(str(error)) from None
    return text


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        schemas.check(schema)
    except DefinitionError as error:
        raise ValueError(str(error)) from None
    return schema


def _packs(names: list[str]) -> list[str]:
    for name in names:
        if name not in (known := pack_names()):
            raise ValueError(f"there is no pack {name!r}: give some of {', '.join(known)}, or [] for none")
    return names


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Expectations(_Written):
    """What is expected; what is not said may be anything.

    Attributes:
        status: How the job ends.
        route: The first agent.
        agent: The last one: whose answer it is.
        chain: All that had control of the job itself, in order: nobody of the jobs below it.
        tools: What was called, in this order; other calls may stand between. Those of the jobs below count.
        no_tools: What was not called, there neither.
        answer: The answer, to the letter.
        pattern: A regular expression of RE2 that is found in the answer.
        schema: The JSON Schema of the structured result, or of an answer that is JSON.
        judge: What a model is to find true of the answer.
    """

    status: Literal["done", "unfinished", "failed"] = "done"
    route: str | None = None
    agent: str | None = None
    chain: list[str] | None = None
    tools: list[str] | None = None
    no_tools: list[str] = Field(default_factory=list)
    answer: str | None = None
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    schema_: Annotated[dict[str, Any], AfterValidator(_schema)] | None = Field(None, alias="schema")
    judge: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Expectations":
        if not self.model_fields_set:
            raise ValueError("says nothing: give some of status, route, agent, chain, tools, answer, pattern, …")
        return self


class Turn(_Written):
    """A request and what is expected of its job."""

    request: str = Field(min_length=1)
    agent: str | None = None
    """Who takes it; None: it is routed, or taken by who has the session."""
    inputs: dict[str, Any] | None = None
    state: dict[str, Any] = Field(default_factory=dict)
    expect: Expectations

    @model_validator(mode="after")
    def _names_whom_it_calls(self) -> Self:
        if self.inputs is not None and self.agent is None:
            raise ValueError("inputs are an agent's own: name the agent, too")
        return self


class Case(_Written):
    """Requests of one session, in their order: each goes on with what the one before it left."""

    name: Annotated[str, AfterValidator(_name)]
    turns: list[Turn] = Field(min_length=1, max_length=_MOST_TURNS)

    @model_validator(mode="before")
    @classmethod
    def _of_one_turn(cls, written: Any) -> Any:
        """Take a case that is its only turn itself as one of one turn."""
        if not isinstance(written, dict) or "turns" in written:
            return written
        own = {name: value for name, value in written.items() if name in Turn.model_fields}
        others = {name: value for name, value in written.items() if name not in own}
        return {**others, "turns": [own]}

    @property
    def is_conversation(self) -> bool:
        """Whether there are several turns."""
        return len(self.turns) > 1


class Suite(_Written):
    """A file of cases.

    Attributes:
        name: Else that of the file.
        packs: Which teams that come with Ekiden are there; None: as the settings say.
        workspace: A folder of the suite's project, from the suite's on, or a YAML file of files (path -> content):
            each case that is recorded works in a copy.
        cases: The requests, alone or several in a session.
        path: The file.
    """

    name: str = ""
    packs: Annotated[list[str], AfterValidator(_packs)] | None = None
    workspace: Path | None = None
    cases: list[Case] = Field(min_length=1)
    path: Path = Field(default=Path(), exclude=True)

    def beside(self, path: Path) -> Path:
        """Return a path of the suite's from its folder on."""
        return (self.path.parent / path).absolute()

    @property
    def recordings(self) -> Path:
        """The folder of its recordings."""
        return self.path.with_suffix(".recordings")

    def recording(self, case: Case) -> Path:
        """Return the file of a case's recording."""
        return self.recordings / f"{case.name}.yaml"

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or self.path.stem


def read_suite(path: Path, *, for_recording: bool = False) -> Suite:
    """Read a suite; ``for_recording``: its workspace must be there, too.

    Raises ``InvalidRequest`` naming file and line, what is wrong, and what was expected.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: cannot be read: {why_unreadable(error)}") from None
    located = LocatedYaml(text, str(path))
    if not isinstance(located.data, dict) or "path" in located.data:
        raise InvalidRequest(f"{path}:1: expected 'cases:' with a list, each with name, request and expect")
    try:
        suite = Suite.model_validate({**located.data, "path": path})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        loc = _as_written([step for step in first["loc"] if isinstance(step, str | int)], located.data)
        named = ".".join(map(str, loc)) or "the suite"
        raise InvalidRequest(f"{located.place(loc)}: {named}: {fault_in(first)}") from None
    _refuse_wrong_names(suite, located)
    if for_recording:
        _refuse_other_folders(suite, located)
        _refuse_link(suite.recordings)
    return suite


def _as_written(loc: list[str | int], data: Any) -> list[str | int]:
    """Return where something stands in the file: a case of one turn may be that turn itself."""
    match loc:
        case ["cases", int() as number, "turns", 0, *rest] if "turns" not in data["cases"][number]:
            return ["cases", number, *rest]
        case _:
            return loc


def _refuse_wrong_names(suite: Suite, located: LocatedYaml) -> None:
    seen: set[str] = set()
    for number, case in enumerate(suite.cases):
        if case.name.casefold() in seen:
            raise InvalidRequest(
                f"{located.place(['cases', number, 'name'])}: another case is named {case.name!r}, too"
            )
        seen.add(case.name.casefold())


def _refuse_other_folders(suite: Suite, located: LocatedYaml) -> None:
    """Refuse a workspace that is none of the project's: what lies there would be read to models."""
    if suite.workspace is None:
        return
    project, there = project_of(suite.path.absolute().parent), suite.beside(suite.workspace).resolve()
    place, written = f"{located.place(['workspace'])}: workspace", str(suite.workspace)
    if not there.is_relative_to(project):
        raise InvalidRequest(
            f"{place}: {written!r} leads to {str(there)!r}, which is not in the suite's project, {str(project)!r}: "
            "copy what the cases need into it"
        )
    if not there.exists():
        raise InvalidRequest(
            f"{place}: {written!r} leads to {str(there)!r}, and nothing is there: name a folder, or a YAML file of "
            "files (path -> content), as seen from the suite"
        )


def _refuse_link(folder: Path) -> None:
    """Refuse to write recordings elsewhere: a suite of somebody else's would say where."""
    if folder.is_symlink():
        raise InvalidRequest(f"{folder}: is a link, which recordings are not written through: make it a folder")
