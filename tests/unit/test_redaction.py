"""Secrets are masked, words are not."""

import base64
import json
import random
import uuid

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.redaction import MASK, Redactor
from tests.doubles.planted import KINDS, MARK, found_in

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ\nabc\n-----END RSA PRIVATE KEY-----"
CASES = {
    "a Gemini key": ("call AIzaSyA1234567890abcdefghijklmnopqrstuv now", f"call {MASK} now"),
    "an OpenAI key": ("sk-proj-abcdefghijklmnop1234", MASK),
    "a GitHub token": (f"ghp_{'a1' * 18}", MASK),
    "an AWS key id": ("id AKIAIOSFODNN7EXAMPLE.", f"id {MASK}."),
    "a Slack token": ("xoxb-123456789012-abcdef", MASK),
    "a JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc_def", MASK),
    "a bearer token": ("Authorization: Bearer abc123def456", f"Authorization: Bearer {MASK}"),
    "a bare bearer token": ("sent bearer abc123def456 along", f"sent bearer {MASK} along"),
    "basic authorization": ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {MASK}"),
    "a password in a URL": ("postgres://bob:s3cr3t@db/x", f"postgres://bob:{MASK}@db/x"),
    "a password alone in a URL": ("redis://:p%40ss@h:6379/0", f"redis://:{MASK}@h:6379/0"),
    "a password with an at sign": ("redis://u:p@ss@h", f"redis://u:{MASK}@h"),
    "a private key": (f"before {KEY} after", f"before {MASK} after"),
    "a private key in JSON": (KEY.replace("\n", "\\n"), MASK),
    "a private key that is cut off": (KEY[:45], MASK),
    "a named password": ("password=hunter22 ok", f"password={MASK} ok"),
    "a named key in JSON": ('{"api_key": "abc def"}', f'{{"api_key": "{MASK}"}}'),
    "a named key in JSON in JSON": (r"{\"client_secret\": \"abcdef\"}", rf"{{\"client_secret\": \"{MASK}\"}}"),
    "a header": ("-H 'X-Goog-Api-Key: ABCDEFG'", f"-H 'X-Goog-Api-Key: {MASK}'"),
    "a value of the environment": ("it is correct-horse-battery", f"it is {MASK}"),
    "a user's pattern": ("badge ACME-4711", f"badge {MASK}"),
}
PLAIN = [
    "the bearer certificates of 1920",
    "max_tokens=20000, then tokens: 12",
    "its limit (max_tokens: 100): raise it",
    '{"input_tokens": 12, "token": null}',
    "http://localhost:4318/v1/traces",
    "see https://example.org/a:b and a@b.org",
    "the password is long, the token is short",
    "/run/agent/.keys",
    "basic understanding of the matter",
    "skate, ski-jumping, sk-8",
    "sk-toolbar-button-primary, task_sk_done_with_that_thing",
    "密码是必填的，令牌为空时报错，密钥需要轮换",
    "machine learning, no password needed",
    "https://github.com/org/repo@v1.2.3#readme",
]
ENV = {
    "SOME_API_KEY": "correct-horse-battery",
    "SSH_AUTH_SOCK": "/run/agent/.keys",
    "SHORT_TOKEN": "the",
    "GIT_AUTHOR_NAME": "understanding",
    "DATABASE_URL": "postgres://u:swordfish@h/x",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-team=collector-pass-1",
}


_BYTES = random.Random(7).randbytes(3_000)
DIGESTS = {
    "a commit": f"commit {_BYTES[:20].hex()}",
    "a digest of an image": f"sha256:{_BYTES[:32].hex()}",
    "a UUID": str(uuid.UUID(bytes=_BYTES[:16])),
    "a picture": f"data:image/png;base64,{base64.b64encode(_BYTES).decode()}",
    "npm's lock file": f'"integrity": "sha512-{base64.b64encode(_BYTES[:64]).decode()}"',
    "pip's lock file": f"--hash=sha256:{_BYTES[:32].hex()}",
    "go.sum": f"golang.org/x/net v0.17.0 h1:{base64.b64encode(_BYTES[:32]).decode()}",
    "Cargo.lock": f'checksum = "{_BYTES[:32].hex()}"',
    "an ETag": f'ETag: W/"{_BYTES[:16].hex()}"',
    "a trace": f"traceparent: 00-{_BYTES[:16].hex()}-{_BYTES[:8].hex()}-01",
    "a session of ours": "efvqdby6g2wk6iae.1",
}


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(["ACME-[0-9]+"], ENV)


@pytest.mark.parametrize("case", CASES)
def test_masks_secrets(redactor: Redactor, case: str) -> None:
    text, masked = CASES[case]
    assert redactor.redact(text) == masked
    assert redactor.redact(redactor.redact(text)) == masked, "masking again changes nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_masks_every_kind_also_within_json_and_json_in_json(redactor: Redactor, kind: str) -> None:
    text = KINDS[kind]
    assert found_in(text), "or this proves nothing"
    once = json.dumps({"said": text}, ensure_ascii=False)
    for form in (text, f"before {text} after", once, json.dumps({"args": once}, ensure_ascii=False)):
        masked = redactor.redact(form)
        assert found_in(masked) == []
        assert redactor.redact(masked) == masked, "masking again changes nothing"
    assert MARK not in str(redactor.redact_all({"list": [{"said": text}]})).lower()


@pytest.mark.parametrize("what", DIGESTS)
def test_leaves_digests_and_pictures_alone(redactor: Redactor, what: str) -> None:
    assert redactor.redact(DIGESTS[what]) == DIGESTS[what]


@pytest.mark.parametrize("text", PLAIN)
def test_leaves_words_alone(redactor: Redactor, text: str) -> None:
    assert redactor.redact(text) == text


def test_masks_passwords_that_addresses_of_the_environment_hold(redactor: Redactor) -> None:
    assert redactor.redact("it said swordfish, and collector-pass-1") == f"it said {MASK}, and {MASK}"


def test_masks_each_secret_of_a_list_in_the_environment_and_those_it_is_told() -> None:
    first, second, told = "first-planted-secret", "other-planted-secret", "told-planted"
    redactor = Redactor((), {"EKIDEN_SIGNING_KEY": f"k2:{second},k1:{first}"}, [told, ""])
    assert redactor.redact(f"{first} or k2:{second} or {told}") == f"{MASK} or k2:{MASK} or {MASK}"


@pytest.mark.parametrize("name", ["secretKey=", "SECRET_KEY: ", "pass: ", "  - pass: ", "a\npass: ", 'x, pass="'])
def test_masks_what_stands_behind_a_name(redactor: Redactor, name: str) -> None:
    assert redactor.redact(f"{name}planted") == f"{name}{MASK}"


def test_masks_an_objects_pass_and_leaves_words_that_begin_so(redactor: Redactor) -> None:
    assert redactor.redact_all({"pass": "planted", "passes": "often"}) == {"pass": MASK, "passes": "often"}
    assert redactor.redact("on the first pass: everything, bypass: nothing") == (
        "on the first pass: everything, bypass: nothing"
    )


def test_masks_texts_however_deep(redactor: Redactor) -> None:
    value = {"a": ["ACME-1", 2, None], "b": ({"c": "ACME-2"},), "password": "xyz", "token": "12", "n": 1.5}
    masked = {"a": [MASK, 2, None], "b": [{"c": MASK}], "password": "xyz", "token": "12", "n": 1.5}
    assert redactor.redact_all(value) == masked
    assert redactor.redact_all({"password": "xyzzy", "x": "xyzzy"}) == {"password": MASK, "x": "xyzzy"}
    assert redactor.redact_all({"password": ["xyzzy", ("plugh",), 12]}) == {"password": [MASK, [MASK], 12]}
    assert redactor.redact_all({"text": "a, token=abcdef"}) == {"text": f"a, token={MASK}"}


def test_takes_what_is_no_unicode(redactor: Redactor) -> None:
    assert redactor.redact("lone \ud800 ACME-1") == f"lone ? {MASK}"


def test_takes_long_texts_in_linear_time(redactor: Redactor) -> None:
    assert redactor.redact("a" * 2_000_000 + " ACME-1").endswith(MASK)


def test_refuses_a_pattern_that_cannot_be_read() -> None:
    with pytest.raises(ConfigurationError, match=r"'ekiden.redact': pattern '\(a'"):
        Redactor(["(a"])
