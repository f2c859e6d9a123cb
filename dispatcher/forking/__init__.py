"""Jobs that begin behind steps which another one has recorded."""
