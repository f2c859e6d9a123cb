"""Regression suites: requests with what is expected of them, recorded once and played again."""
