"""The update: stochastic gradient descent with clipping, weight decay and momentum."""
