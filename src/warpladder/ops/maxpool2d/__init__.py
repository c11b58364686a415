"""Max pooling. It imports ops/engine. Begin with reference.py, then naive.cu."""
