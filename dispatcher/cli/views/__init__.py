"""How jobs, queues and catalogs are shown."""
