"""Whether a tool may be called: allowed, asked for, or denied, and by which rule."""
