"""Convolutions of few outputs after an upsampling by 2: products first, then shifts of their sums. It imports
ops/conv2d and warpgroups/. Begin with shifted.py and shifted.cu.
"""
