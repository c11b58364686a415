"""Mean over windows, or over the whole image: AvgPool2d, AdaptiveAvgPool2d(1). It imports ops/engine. Begin with
reference.py, then naive.cu.
"""
