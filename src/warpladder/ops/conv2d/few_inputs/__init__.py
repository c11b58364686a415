"""Convolutions of few input channels, such as colours, by multiply-adds in registers. It imports the products of
ops/conv2d and device. Begin with few_inputs.py and few.cu.
"""
