"""A job's story in the forms that other programs read."""
