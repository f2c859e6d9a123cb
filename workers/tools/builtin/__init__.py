"""Tools that ship with Ekiden."""
