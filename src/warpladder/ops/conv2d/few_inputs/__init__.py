"""Convolutions of few input channels, a picture's colours, by multiply-adds in registers. It imports the products of
ops/conv2d and device. Begin with few_inputs.py and few.cu.
"""
