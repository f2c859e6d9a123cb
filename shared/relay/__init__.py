"""The durable core that every pool runs: claim, run, commit."""
