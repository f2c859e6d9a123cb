"""Texts as vectors of meaning and as words: what routing and memory compare texts by."""
