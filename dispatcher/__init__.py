"""Request in, first agent's queue out; and the command line."""
