"""Losses with settings or with weights of samples. Each language has a value and a gradient.

Softmax cross-entropy with smoothed labels and weights of classes, and the losses by element: MSE, L1, Huber's and
binary cross-entropy. Plain CrossEntropyLoss and MSELoss have kernels of their own in ops/cross_entropy and ops/mse.
This folder imports ops/engine. Begin with reference.py, then loss.cuh.

`shares` are the weights of a step's samples in its mean: a sample's weight over the sum of the batch's weights, each
multiplied by its class's weight for CrossEntropyLoss.
"""
