"""What the dispatcher and the workers both know; imports neither."""
