"""ReLU, y = max(x, 0). It imports ops/engine. Begin with reference.py, then naive.cu."""
