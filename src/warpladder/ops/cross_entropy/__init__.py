"""Softmax and the negative log-likelihood of the labels, in one."""
