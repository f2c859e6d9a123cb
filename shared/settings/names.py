"""What settings are called where, and which of them mean what: by the fields of ``Settings``."""

__all__ = ["ABSOLUTE", "HARMLESS", "KEYS", "OTHER_KEYS", "OTHER_NAMES", "PATHS", "PREFIX"]

PREFIX = "EKIDEN_"
KEYS = {
    "routing_enabled": "agents.routing.enabled",
    "routing_strategy": "agents.routing.strategy",
    "routing_rule_threshold": "agents.routing.rule.confidence_threshold",
    "routing_semantic_threshold": "agents.routing.semantic.threshold",
    "routing_semantic_top_k": "agents.routing.semantic.top_k",
    "routing_llm_enabled": "agents.routing.llm.enabled",
    "routing_llm_model": "agents.routing.llm.model",
    "routing_llm_timeout": "agents.routing.llm.timeout",
    "routing_fallback": "agents.routing.fallback",
    "routing_default_agent": "agents.routing.default_agent",
    "routing_learn": "agents.routing.learn",
    "routing_session_policy": "agents.routing.session_policy",
    "packs": "agents.packs",
    "default_scope": "agents.defaultScope",
    "context_persistence": "agents.contextPersistence",
    "tools_after_untrusted": "tools.after_untrusted",
    "tracing_enabled": "agents.tracing.enabled",
    "tracing_events": "agents.tracing.events",
    "tracing_backend": "agents.tracing.backend",
    "tracing_sample_rate": "agents.tracing.sample_rate",
    "tools_env": "tools.env",
    "notify_command": "notify.command",
    "providers": "providers",
    "tools_read_only": "tools.read_only",
    "tools_timeout_s": "tools.timeout_s",
    "tools_web_fetch_allow_private": "tools.web_fetch.allow_private",
    "tools_writable": "tools.writable",
    "tools_sandbox": "tools.sandbox",
    "tools_readable": "tools.readable",
    "tools_max_processes": "tools.max_processes",
    "tools_max_memory_mib": "tools.max_memory_mib",
    "tools_max_file_mib": "tools.max_file_mib",
}

HARMLESS = frozenset(
    {
        "routing_enabled",
        "routing_strategy",
        "routing_rule_threshold",
        "routing_semantic_threshold",
        "routing_semantic_top_k",
        "routing_llm_timeout",
        "routing_learn",
        "packs",
    }
)
"""What a project may set that nobody trusts: how an agent is looked for, how sure that must be, and which of
Ekiden's own agents are not among them (``settings`` sees to it that it adds none). A field that is not
here is not harmless: it names who gets what nobody matches, addresses, keys, models, scripts, commands, paths, prices,
what is masked, or who is told what."""

PATHS = ("data_dir", "scripts_dir", "workspace_root", "project", "memory_folder")
ABSOLUTE = ("agents_dir", "scripts_dir", "data_dir", "policy_files", "memory_folder")
"""What is read as the user's own word if it is the user's setting: a clone may have a folder of that name."""

OTHER_KEYS = {"routing_enabled": "agents.autoRoute"}
"""Keys of gemini-cli's that are read where ours is not set."""
OTHER_NAMES = {
    "routing_enabled": "GEMINI_ROUTING_ENABLED",
    "routing_strategy": "GEMINI_ROUTING_STRATEGY",
    "routing_rule_threshold": "GEMINI_ROUTING_THRESHOLD",
}
"""Environment variables of gemini-cli's that are read where ours is not set."""
