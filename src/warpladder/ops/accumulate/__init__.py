"""Sum of the gradients of a batch in slices. It imports ops/engine. Begin with naive.cu."""
