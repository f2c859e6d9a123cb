"""Agent files and the catalog made of them."""
