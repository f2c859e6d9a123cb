"""Run one leg of a job."""
