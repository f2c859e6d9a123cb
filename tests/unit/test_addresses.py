"""Addresses: what is understood by everybody alike passes, everything else is refused, and nothing secret is said."""

import pytest

from ekiden.shared.addresses import problem_of, without_password
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.settings.model import Settings, load_settings

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://host",
        "redis://my_host.example-1.org:6379/15",
        "redis://127.0.0.1:1/",
        "redis://[::1]:6379/0",
        "redis://[fe80::1%25eth0]:6379",
        "redis://:p%2Fa%3Fs%23s%40@host:6379/0",
        "redis://user:wörd@host/0",
        "redis://host?db=3&username=me&password=a%40b",
        "rediss://host/0?ssl_cert_reqs=none&ssl_check_hostname=false&ssl_ca_certs=/dev/null",
        "unix:///tmp/a%20b.sock?db=2",
        "unix://me:pw@/tmp/s.sock",
    ],
)
def test_an_address_is_one(url: str) -> None:
    assert problem_of(url) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "it is empty"),
        (" ", "holds a space, a line end"),
        (f"redis://:{SECRET}@host:6379/0 ", "holds a space, a line end"),
        (f"redis://:{SECRET}@host:6379/0\n", "holds a space, a line end"),
        (f"redis://:{SECRET}\udce9@host:6379/0", "must be written encoded"),
        ("localhost:6379", "does not begin as an address does"),
        (SECRET, "does not begin as an address does"),
        (f"{SECRET}://host", "does not begin as an address does"),
        ("://", "does not begin as an address does"),
        ("REDIS://host", "does not begin as an address does"),
        ("sentinel://host:26379/0", "sentinel:// is not spoken here"),
        (f"amqp://guest:{SECRET}@host//", "amqp:// is not spoken here"),
        ("http://localhost", "http:// is not spoken here"),
        ("valkey://localhost", "valkey:// is not spoken here"),
        ("redis+socket:///tmp/s.sock", r"redis\+socket:// is not spoken here"),
        (f"redis://:{SECRET}/ss#w@rd@host:6379/0", "must be written encoded"),
        (f"redis://:1/{SECRET}@host:6379/0", "must be written encoded"),
        (f"redis://:1?{SECRET}@host:6379/0", "must be written encoded"),
        (f"redis://:1#{SECRET}@host:6379/0", "must be written encoded"),
        (f"redis://:1?{SECRET}=@host:6379/0", "must be written encoded"),
        (f"redis://:[{SECRET}@host:6379/0", "must be written encoded"),
        (f"redis://user:p@{SECRET}@host/0", "must be written encoded"),
        (f"redis://:{SECRET}", "its port is no number"),
        (f"redis://:{SECRET}@host:port/0", "address: its port is no number from 1 to 65535; expected"),
        ("redis://host:port/0", "its port is no number"),
        ("redis://host:0/0", "its port is no number"),
        ("redis://host:70000/0", "its port is no number"),
        ("redis://::1:6379/0", "its port is no number"),
        ("redis://a:1,b:2/0", "its port is no number"),
        ("redis://a,b/0", "must be written encoded"),
        ("redis://host/abc", "number of its database is none"),
        ("redis://host/-1", "number of its database is none"),
        ("redis://host/0/1", "number of its database is none"),
        ("redis://host?db=x", "option db has a wrong value"),
        ("redis://host/0?db=1", "says its db twice"),
        ("redis://host?db=1&db=2", "says its db twice"),
        (f"redis://:x@host?password={SECRET}", "says its password twice"),
        (f"redis://host?{SECRET}=1", "an option that is unknown; known are db, password"),
        ("redis://host?db", "option db has a wrong value"),
        ("redis://host?ssl_cert_reqs=none", "write rediss:// in front"),
        ("rediss://host?ssl_cert_reqs=CERT_NONE", "option ssl_cert_reqs has a wrong value"),
        ("rediss://host?ssl_ca_certs=/no/such/file.pem", "ssl_ca_certs names a file that does not exist"),
        ("redis://host?socket_timeout=soon", "option socket_timeout has a wrong value"),
        ("unix", "does not begin as an address does"),
        ("unix://", "a socket's path is absolute"),
        ("unix://tmp/s.sock", "a socket's path is absolute"),
    ],
)
def test_what_is_no_address_is_refused_with_what_is_wrong_and_what_is_right(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        load_settings(redis_url=url)
    assert "expected redis://[USER:PASSWORD@]HOST:PORT/DB, rediss:// for TLS, or unix:///PATH" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_no_address_at_all_is_none_of_its_problems() -> None:
    assert Settings().redis_url is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:secret@host:1/2", "redis://host:1/2"),
        ("redis://:a@b@host:1/2", "redis://host:1/2"),
        ("rediss://:se%40cret@host/0?ssl_cert_reqs=none", "rediss://host/0"),
        ("redis://[::1]:1/2?password=secret", "redis://[::1]:1/2"),
        ("unix:///tmp/s.sock?db=0", "unix:///tmp/s.sock"),
        ("unix://me:secret@/tmp/s.sock?password=secret", "unix:///tmp/s.sock"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("url", [f"https://me:{SECRET}@host/v1", f"me:{SECRET}@host", f"https://{SECRET}/x@host"])
def test_an_address_of_a_model_with_a_secret_in_it_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="it names a user, or a password") as caught:
        load_settings(gemini_base_url=url)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"
    with pytest.raises(ConfigurationError, match="it names a user, or a password") as told:
        GeminiAccess.from_env({"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": url})
    assert SECRET not in str(told.value)
