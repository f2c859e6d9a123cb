"""Trust in folders: what a project may do here that only its user can allow."""
