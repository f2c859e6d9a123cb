"""A server that speaks Gemini's REST API (v1beta, and Vertex AI's paths) and plays every failure that it has.

    python -m tests.doubles.gemini --port 8765 --rules rules.json
    GEMINI_API_KEY=test GEMINI_BASE_URL=http://127.0.0.1:8765 ekiden run "..."

Answers come from rules (``rules.py``), the first that fits and is not used up; without one, from a small deterministic
brain (``brain.py``). Requests are checked as Gemini checks them (``checks.py``) and recorded. Other processes control
it by HTTP: ``POST /__rules`` (a rule or a list), ``GET /__requests``, ``POST /__reset``.
"""
