"""Maximum over windows. It imports ops/engine. Begin with reference.py, then naive.cu."""
