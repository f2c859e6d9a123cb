"""Routing that learns: from how jobs went, for the requests that come after them."""
