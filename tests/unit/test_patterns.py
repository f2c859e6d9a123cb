import pytest

from ekiden.shared.errors import DefinitionError
from ekiden.shared.patterns import compile_pattern


def test_ignores_case_and_finds_words_beside_chinese() -> None:
    pattern = compile_pattern(r"\bTypeError\b", ignore_case=True)

    assert pattern.search("这个typeerror怎么解决".encode())
    assert not pattern.search(b"MyTypeErrors")


@pytest.mark.parametrize("text", ["(", "[a", r"(a)\1", "(?<=a)b", "a{1000}{1000}", "\ud800"])
def test_refuses_with_the_reason_and_writes_nothing_to_stderr(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DefinitionError, match=r"is not a regular expression of RE2: \S"):
        compile_pattern(text)

    assert capfd.readouterr().err == ""
