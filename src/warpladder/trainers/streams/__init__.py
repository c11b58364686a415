"""Streams of a captured step: which launches run on side streams, and which steps of a graph interleave.

It imports device and ops/engine. Begin with overlap.py.
"""
