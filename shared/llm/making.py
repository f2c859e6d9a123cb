"""The models of one process: chosen by name, made once for each provider."""

from collections.abc import Iterable, Mapping

from ekiden.shared.errors import EkidenError, MissingModel
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.foreign_code import is_interruption, said_by
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.admission import AdmittedModel
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.circuits import CircuitModel, Circuits
from ekiden.shared.llm.models import ModelChoice, choose_all
from ekiden.shared.llm.providers import ModelValues, Provider
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.llm.sanitizing import SanitizingModel
from ekiden.shared.once import Once
from ekiden.shared.redaction import redact

__all__ = ["RETRY_BEFORE_FALLBACK_S", "Models"]

RETRY_BEFORE_FALLBACK_S = 30.0
"""How long a model is tried again while another one could be asked."""

log = LateLogger(__name__)


class Models:
    """The models of one process: chosen by name, made once for each provider."""

    def __init__(self, values: ModelValues, env: Mapping[str, str], circuits: Circuits | None = None) -> None:
        """``circuits``: tell which models not to ask for a while; None: all are asked."""
        self._values = values
        self._env = env
        self._circuits = circuits
        self._chosen: dict[tuple[str | None, ...], tuple[ModelChoice, ...]] = {}
        self._clients: dict[str, ChatModel] = {}
        self._made: dict[tuple[str, bool], ChatModel] = {}
        self._said = Once()

    def choose(self, name: str | None) -> ModelChoice:
        """Return the model that serves ``name``, the first of several. Raises ``MissingModel``."""
        return self.choose_all((name,))[0]

    def choose_all(self, names: Iterable[str | None]) -> tuple[ModelChoice, ...]:
        """Return the models that serve ``names``, chosen once; what is odd about them is logged once.

        Raises ``MissingModel``.
        """
        key = tuple(names)
        if (known := self._chosen.get(key)) is not None:
            return known
        choices = self._chosen[key] = choose_all(key, self._values, self._env)
        for choice in choices:
            if choice.note and self._said.first(choice.note):
                log.warning("model_chosen", named=_named(key), model=choice.name, note=choice.note)
        return choices

    @property
    def fallback_on(self) -> tuple[FallbackCause, ...]:
        """Why the next model of several is asked, where nobody says anything else."""
        return self._values.fallback_on

    def model(self, choice: ModelChoice, *, has_fallback: bool = False) -> ChatModel:
        """Return what answers for ``choice``; it is to be asked for ``choice.name``. Raises ``MissingModel``.

        With a fallback it is given up earlier: ``RETRY_BEFORE_FALLBACK_S``.
        """
        provider = choice.provider
        key = provider.name, has_fallback
        if key not in self._made:
            if provider.name not in self._clients:
                self._clients[provider.name] = AdmittedModel(_made(provider, self._values, self._env))
            self._made[key] = SanitizingModel(self._retrying(provider, has_fallback=has_fallback))
        return self._made[key]

    def _retrying(self, provider: Provider, *, has_fallback: bool) -> ChatModel:
        client, total_s = self._clients[provider.name], self._values.retry_total_s
        if not provider.is_remote:
            return client
        if self._circuits is not None:
            client = CircuitModel(client, self._circuits, provider.name, provider.account(self._env))
        if has_fallback:
            total_s = min(total_s, RETRY_BEFORE_FALLBACK_S)
        return RetryingModel(client, attempts=self._values.attempts, total_s=total_s)


def _made(provider: Provider, values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    try:
        return provider.make(values, env)
    except EkidenError:
        raise
    except BaseException as error:  # a plug-in's
        if is_interruption(error):
            raise
        said = f"{type(error).__name__}: {redact(said_by(error))}"
        raise MissingModel(f"The provider {provider.name!r} cannot make its model: {said}") from error


def _named(names: Iterable[str | None]) -> str:
    return ", ".join(name or "inherit" for name in names)
