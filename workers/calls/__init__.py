"""What becomes of the calls of a turn: each gets its one answer, or ends the leg."""
