"""What a guardrail judges: a text, or what it says as JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ekiden.shared.guardrails.plain import plain, unescaped
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.storable import read_json

__all__ = ["HANDED_OVER", "Subject"]

HANDED_OVER = ("reason", "summary", "context", "payload")
"""What goes with control; the last one is an object, the others are texts."""


@dataclass(frozen=True)
class Subject:
    """A value as its readers get it. ``data`` None: it is nothing but the text."""

    text: str
    data: Any = None
    fields: Mapping[str, Any] | None = None
    """Of what goes with control: what it is made of, by name; ``data`` is the payload then."""

    @classmethod
    def of(cls, value: Any) -> "Subject":
        """Return a value that is a text, or JSON."""
        return cls(value) if isinstance(value, str) else cls(json.dumps(value, ensure_ascii=False), value)

    @classmethod
    def given(cls, words: Iterable[str | None], data: Any = None) -> "Subject":
        """Return what is said in ``words`` with ``data``, at which alone a schema looks where there is any."""
        text = json.dumps(data, ensure_ascii=False) if data else None
        return cls("\n\n".join(filter(None, [*words, text])), data or None)

    @classmethod
    def asked(
        cls,
        prompt: str,
        inputs: Mapping[str, Any] | None,
        handed_over: HandoffContext | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> "Subject":
        """Return what an agent is told: the request and its inputs, and what was handed over to it, if anything.

        ``state``: the session variables that come with the request; no schema looks at them.
        """
        if handed_over is None:
            return cls.given([prompt, json.dumps(state, ensure_ascii=False) if state else None], inputs)
        given = json.dumps(inputs, ensure_ascii=False) if inputs else None
        words = [prompt, given, handed_over.reason, handed_over.summary, handed_over.context]
        return cls.given(words, handed_over.payload)

    @classmethod
    def handed_over(cls, context: HandoffContext) -> "Subject":
        """Return what goes with control."""
        return cls.of_fields({name: said for name in HANDED_OVER if (said := getattr(context, name))})

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "Subject":
        """Return what goes with control, given by name; see ``HANDED_OVER``."""
        *words, payload = (fields.get(name) for name in HANDED_OVER)
        return replace(cls.given(words, payload), fields=fields)

    def of_same_kind(self, value: Any) -> "Subject":
        """Return ``value``, which stands in the place of this one's."""
        return Subject.of(value) if self.fields is None else Subject.of_fields(value)

    @property
    def as_given(self) -> str:
        """It as text, from which it can be read again."""
        return self.text if self.fields is None else json.dumps(self.fields, ensure_ascii=False)

    @property
    def value(self) -> Any:
        """What it was made of."""
        if self.fields is not None:
            return self.fields
        return self.text if self.data is None else self.data

    @property
    def parsed(self) -> Any:
        """It as JSON, also where it is a text that says some, or that others may read so; None: it is none."""
        if self.data is not None:
            return self.data
        try:
            return read_json(self.text, lenient=True)
        except ValueError:
            return None

    def readings(self) -> list[str]:
        """Return what it says in plain words, in each way in which it may be read: as it stands, and as JSON.

        Of JSON these are the texts and numbers in it, a line each, with nothing escaped.
        """
        said = self.parsed
        read = [] if said is None else ["\n".join(_scalars(said))]
        stands = [] if self.data is not None else [self.text]
        written = dict.fromkeys(text for one in (*stands, *read) for text in (one, unescaped(one)))
        return list(dict.fromkeys(map(plain, written)))

    def as_json(self) -> Any:
        """Return what schemas look at. Raises ``ValueError`` for a text that is no JSON."""
        return read_json(self.text) if self.data is None else self.data


def _scalars(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield name
                yield from _scalars(inner)
        case list():
            for inner in value:
                yield from _scalars(inner)
        case str():
            yield value
        case bool() | None:
            pass
        case _:
            yield str(value)
