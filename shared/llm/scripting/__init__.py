"""The parts of the scripted model: format, history, expressions, and what its scripts may compute."""
