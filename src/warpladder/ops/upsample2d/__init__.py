"""Nearest-neighbour enlargement by a whole factor."""
