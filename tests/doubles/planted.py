"""Secrets of many kinds, none of them real, for scans of what leaves the program.

Each text holds ``MARK`` in the part that must not be seen, whatever alphabet its kind has: case does not count.
"""

import re

__all__ = ["KINDS", "MARK", "OPERATORS", "found_in"]

MARK = "plant3d"
_UPPER = MARK.upper()
_HEX = "0123456789abcdef" * 2


def _long(size: int) -> str:
    """Return letters and digits, ``MARK`` in the middle."""
    return ("a1B2c3D4" * 20)[: (size - len(MARK)) // 2] + MARK + ("e5F6g7H8" * 20)[: (size - len(MARK) + 1) // 2]


_PEM = f"-----BEGIN {{}}PRIVATE KEY{{}}-----\nMIIEvQIBADAN{_long(40)}\n-----END {{}}PRIVATE KEY{{}}-----"

KINDS: dict[str, str] = {
    "AWS access key": f"AKIA{_UPPER}XXXXXXXXX",
    "AWS secret key": f"aws_secret_access_key = {_long(40)}",
    "AWS session token": f"AWS_SESSION_TOKEN={_long(100)}",
    "Google API key": f"AIza{_long(35)}",
    "Google access token": f"ya29.{_long(60)}",
    "Google OAuth client": f"GOCSPX-{_long(28)}",
    "Google service account": '{"type": "service_account", "private_key": "'
    + _PEM.format("", "", "", "").replace("\n", "\\n")
    + '"}',
    "Gemini token": f"AQ.{_long(50)}",
    "Azure storage": f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={_long(86)}==;EndpointSuffix=core",
    "Azure application": f"abc8Q~{_long(34)}",
    "Azure signature": f"https://shop.blob.example/c?sv=2024-01-01&sp=r&sig={_long(43)}%3D",
    "Azure service bus": f"Endpoint=sb://shop.example/;SharedAccessKeyName=root;SharedAccessKey={_long(43)}=",
    "Alibaba key": f"LTAI5t{_long(18)}",
    "Tencent key": f"AKID{_long(32)}",
    "GitHub token": f"ghp_{_long(36)}",
    "GitHub fine-grained token": f"github_pat_{_long(82)}",
    "GitLab token": f"glpat-{_long(20)}",
    "GitLab runner": f"glrt-{_long(20)}",
    "Slack token": f"xoxb-123456789012-{_long(24)}",
    "Slack app": f"xapp-1-A0123456789-{_long(24)}",
    "Slack hook": f"https://hooks.slack.com/services/T00000000/B00000000/{_long(24)}",
    "Discord hook": f"https://discord.com/api/webhooks/123456789/{_long(60)}",
    "Telegram bot": f"123456789:AA{_long(33)}",
    "Stripe key": f"sk_live_{_long(24)}",
    "Stripe webhook": f"whsec_{_long(32)}",
    "OpenAI key": f"sk-proj-{_long(48)}",
    "Anthropic key": f"sk-ant-api03-{_long(95)}",
    "Groq key": f"gsk_{_long(52)}",
    "Hugging Face token": f"hf_{_long(34)}",
    "npm token": f"npm_{_long(36)}",
    "npmrc": f"//registry.example/:_authToken={_long(36)}",
    "PyPI token": f"pypi-AgEIcHlwaS5vcmc{_long(60)}",
    "Docker token": f"dckr_pat_{_long(27)}",
    "SendGrid key": f"SG.{_long(22)}.{_long(43)}",
    "Vault token": f"hvs.{_long(24)}",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJ{_long(40)}.{_long(43)}",
    "RSA key": _PEM.format("RSA ", "", "RSA ", ""),
    "OpenSSH key": _PEM.format("OPENSSH ", "", "OPENSSH ", ""),
    "PGP key": _PEM.format("PGP ", " BLOCK", "PGP ", " BLOCK"),
    "age key": f"AGE-SECRET-KEY-1{_UPPER}{'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L' * 2}",
    "basic auth in a URL": f"https://bob:{MARK}@example.org/x",
    "password alone in a URL": f"redis://:{MARK}@10.0.0.5:6379/0",
    "Sentry DSN": f"https://{MARK}{_HEX[:25]}@o1.ingest.example/2",
    "PostgreSQL address": f"postgresql+psycopg://app:{MARK}@db/shop",
    "connection string": f"Server=db;Database=shop;User Id=app;Password={MARK};Encrypt=true",
    "libpq string": f"host=db user=app password={MARK} dbname=shop",
    "JDBC address": f"jdbc:mysql://db/shop?user=app&password={MARK}",
    "password=": f"password={MARK}",
    "DB_PASS": f"DB_PASS={MARK}",
    "YAML": f"smtp:\n  user: a\n  pass: x\n  smtp_pw: {MARK}",
    "JSON": '{"user": "a", "pass": "' + MARK + '"}',
    "bearer header": f"Authorization: Bearer {_long(30)}",
    "basic header": f"authorization: Basic {_long(24)}",
    "API key header": f"X-Api-Key: {MARK}",
    "other scheme": f"Authorization: ApiKey {MARK}",
    "cookie": f"Cookie: session={MARK}; theme=dark",
    ".netrc": f"machine example.org login bob password {MARK}",
    "option": f"deploy --db-password {MARK} --verbose",
    "curl": f"curl -s -u bob:{MARK} example.org",
    "密码": f"数据库密码：{MARK}，请保密",
    "密码是": f"管理员的密码是 {MARK}。",
    "令牌": f"令牌: {MARK}",
    "密钥": f"访问密钥＝“{MARK}”",
}
"""Kind -> a text that holds one."""

OPERATORS: dict[str, str] = {
    "GEMINI_API_KEY": f"AIza{_long(35)}",
    "GOOGLE_API_KEY": f"AIza{_long(35)[::-1]}{MARK}",
    "DB_PASS": f"{MARK}-db",
    "SENTRY_DSN": f"https://{MARK}@o1.ingest.example/2",
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {_long(30)}",
    "SHOP_HOOK": KINDS["Slack hook"],
    "UNSUSPICIOUS": f"correct horse {MARK}",
    "LC_TOKEN": f"{MARK}-lc",
    **{f"KIND_{number}": text for number, text in enumerate(KINDS.values())},
}
"""What an operator may have in the environment of a worker."""


def found_in(text: str | bytes) -> list[str]:
    """Return what stands around each ``MARK`` in a text."""
    lowered = (text if isinstance(text, str) else text.decode("utf-8", "replace")).lower()
    return re.findall(f".{{0,60}}{MARK}.{{0,40}}", lowered, re.DOTALL)
