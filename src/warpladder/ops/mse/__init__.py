"""Mean squared error."""
