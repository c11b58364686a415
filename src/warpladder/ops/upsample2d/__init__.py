"""Nearest-neighbour upsampling by an integer factor. It imports ops/engine. Begin with reference.py, then naive.cu."""
