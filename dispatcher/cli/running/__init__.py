"""A request, from its words on the command line to its end."""
