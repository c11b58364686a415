"""The engine of the ops: `Op` on the CPU (base.py), `Segment` as kernels (segments.py), and the chain that they form
(chain.py).

It imports device, nets and config, and no operation's folder but through layer_files.py. Begin with base.py, then
segments.py.
"""
