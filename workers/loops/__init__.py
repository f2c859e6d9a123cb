"""Noticing that an agent goes round in circles."""
