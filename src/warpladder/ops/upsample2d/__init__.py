"""Nearest-neighbour upsampling by a whole factor."""
