"""Rows of the data set, by index, scaled into a batch."""
