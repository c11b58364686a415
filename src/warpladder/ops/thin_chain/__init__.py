"""A net of thin linear layers and its loss, computed sample by sample."""
