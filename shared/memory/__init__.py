"""What agents remember from one job to the next: notes in namespaces, found again by meaning or by words."""
