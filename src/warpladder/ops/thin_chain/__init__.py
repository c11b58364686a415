"""Net of thin linear layers and its loss, computed sample by sample. It imports ops/engine, ops/update and
data/order.py. Begin with chain.py, then few_forward.cu.
"""
