"""What people type and see, whatever it is about."""
