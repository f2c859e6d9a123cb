"""Settings: the model, the files that hold them, and a file for each group."""
