"""Convolutions of few outputs after an upsampling by 2: products first, shifts of their sums afterwards. It imports
ops/conv2d and warpgroups/. Begin with shifted.py and shifted.cu.
"""
