"""Engine of the ops: `Op` on the CPU (base.py), `Segment` as kernels (segments.py), and the chain of segments
(chain.py).

It imports device, nets and config; operations' folders only through layer_files.py. Begin with base.py, then
segments.py.
"""
