"""Two-dimensional cross-correlation with a bias."""
