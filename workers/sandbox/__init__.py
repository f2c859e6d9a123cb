"""What confines the programs that tools run."""
