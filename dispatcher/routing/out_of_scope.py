"""Requests that hardly any team of agents is for: general knowledge, small talk, chores, writing.

They show a router what a request looks like that belongs to nobody, beside the agents' own examples of what belongs to
them. Where agents serve such a topic, their examples outweigh these. Written for Ekiden; one a line of the text file.
"""

from pathlib import Path

__all__ = ["OUT_OF_SCOPE"]

OUT_OF_SCOPE: tuple[str, ...] = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
