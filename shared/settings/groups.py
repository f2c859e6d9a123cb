"""The groups of settings that have a module of their own, and the dotted keys of their fields."""

from ekiden.shared.settings import compression, guardrails, limits, loops, memory, plugins, policy
from ekiden.shared.settings.compression import CompressionSettings
from ekiden.shared.settings.fallbacks import FallbackSettings
from ekiden.shared.settings.guardrails import GuardrailSettings
from ekiden.shared.settings.limits import LimitSettings
from ekiden.shared.settings.loops import LoopSettings
from ekiden.shared.settings.mcp import McpSettings
from ekiden.shared.settings.memory import MemorySettings
from ekiden.shared.settings.packs import PackSettings
from ekiden.shared.settings.playback import PlaybackSettings
from ekiden.shared.settings.plugins import PluginSettings
from ekiden.shared.settings.policy import PolicySettings
from ekiden.shared.settings.providers import ProviderSettings
from ekiden.shared.settings.routing import RoutingSettings
from ekiden.shared.settings.tracing import TracingSettings

__all__ = ["GROUP_KEYS", "SettingGroups"]

GROUP_KEYS = plugins.KEYS | policy.KEYS | limits.KEYS | loops.KEYS | compression.KEYS | guardrails.KEYS | memory.KEYS
"""The dotted key of each field that has another one than ``ekiden.<field>``."""


class SettingGroups(
    PluginSettings,
    PolicySettings,
    McpSettings,
    LimitSettings,
    LoopSettings,
    CompressionSettings,
    GuardrailSettings,
    MemorySettings,
    FallbackSettings,
    ProviderSettings,
    PackSettings,
    PlaybackSettings,
    RoutingSettings,
    TracingSettings,
):
    """All of them."""
