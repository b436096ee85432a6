"""Systems about attention."""
