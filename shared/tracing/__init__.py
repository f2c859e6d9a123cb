"""What becomes of a journal as a trace: ids, names and the one mapping from records to spans. Knows no exporter."""
