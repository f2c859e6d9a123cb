"""What an agent says, printed piece by piece as it comes; the record of the whole adds only what is missing."""

from ekiden.dispatcher.cli.terminal.output import Output

__all__ = ["StreamedText"]


class StreamedText:
    """One text: its first line begins with ``prefix``; no blanks at either end, however it was cut into pieces."""

    def __init__(self, out: Output, prefix: str, style: str = "") -> None:
        self._out = out
        self._prefix = prefix
        self._style = style
        self._said = ""
        self._held = ""
        self._has_begun = False

    def add(self, text: str) -> None:
        """Print the next piece. Blanks at its end wait: they may be the text's last."""
        self._said += text
        if not self._has_begun:
            text = text.lstrip()
            if not text:
                return
            self._has_begun = True
            self._out.part(self._prefix, self._style)
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._out.part(shown, self._style)

    def end(self, whole: str) -> None:
        """Print what is missing of ``whole``, and end the line; all of it, if what was said is no beginning of it."""
        if not whole.startswith(self._said):
            self.break_off()
            self._said = self._held = ""
            self._has_begun = False
        self.add(whole[len(self._said) :])
        self._out.fresh_line()

    def break_off(self, *, anew: bool = False) -> None:
        """End the line: what was said is void; ``anew``: it is said again from its beginning."""
        if self._has_begun:
            self._out.part(f" {self._out.symbols['dots']}{' (begins anew)' if anew else ''}", "dim")
        self._out.fresh_line()
