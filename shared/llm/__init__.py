"""Models behind one vendor-neutral protocol."""
