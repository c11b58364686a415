"""Convolutions by Hopper's warpgroup products (wgmma), on images packed with channels last. It imports the products of
ops/conv2d and device. Begin with warpgroups.py and warpgroups.cu.
"""
