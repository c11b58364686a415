"""Losses with settings or with weights of samples: value and gradient of a sample, once for each language.

Softmax cross-entropy with smoothed labels and weights of classes, and the losses by element: MSE, L1, Huber's and
binary cross-entropy. Plain CrossEntropyLoss and MSELoss have kernels of their own in ops/cross_entropy and ops/mse. It
imports ops/engine. Begin with reference.py, then loss.cuh.

`shares` are the weights of a step's samples in its mean: a sample's weight over the sum of the batch's weights, where
CrossEntropyLoss counts the class's weight too in that sum.
"""
