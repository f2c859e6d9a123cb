"""redis-py is imported without a third of what it would drag along, and nobody else notices."""

import subprocess
import sys

import pytest

from ekiden.shared.stores.driver import _Refusal

WITHOUT = """
import sys
from ekiden.shared.stores.driver import redis
assert "opentelemetry.sdk.metrics" not in sys.modules
from redis.observability import OTelConfig, get_observability_instance
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.metrics import set_meter_provider
set_meter_provider(MeterProvider())
otel = get_observability_instance()
assert otel.init(OTelConfig()) is otel and otel.is_enabled()
redis.Redis()
"""


def test_the_sdk_stays_out_and_can_be_used_with_redis_py_all_the_same() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


def test_only_the_thread_that_asked_for_it_is_refused() -> None:
    refusal = _Refusal("some.module")
    with pytest.raises(ModuleNotFoundError, match=r"some\.module"):
        refusal.find_spec("some.module")
    refusal.find_spec("some.other")
    refusal._thread += 1
    refusal.find_spec("some.module")
