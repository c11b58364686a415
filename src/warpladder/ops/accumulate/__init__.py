"""The gradients of a batch that comes in slices, added up."""
