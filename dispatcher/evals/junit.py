"""Results of suites in the form that CI systems read: JUnit's XML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from ekiden.dispatcher.evals.running import CaseResult
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import why_unreadable

__all__ = ["write_junit"]

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, results: Mapping[str, Sequence[CaseResult]]) -> None:
    """Write the results of suites, by their names. Raises ``InvalidRequest``."""
    root = ElementTree.Element("testsuites")
    for name, cases in results.items():
        failures = sum(bool(case.faults) for case in cases)
        seconds = f"{sum(case.seconds for case in cases):.3f}"
        counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "time": seconds}
        suite = ElementTree.SubElement(root, "testsuite", {"name": _text(name), **counts})
        for case in cases:
            about = {"classname": _text(name), "name": _text(case.case.name), "time": f"{case.seconds:.3f}"}
            told = ElementTree.SubElement(suite, "testcase", about)
            if case.faults:
                failure = ElementTree.SubElement(told, "failure", {"message": _text(case.faults[0])})
                failure.text = _text("\n".join(case.faults))
    ElementTree.indent(root)
    try:
        path.write_bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True) + b"\n")
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be written: {why_unreadable(error)}") from None


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
