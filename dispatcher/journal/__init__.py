"""Reading journals: what became of a job and of those below it, for whoever shows or exports it."""
