"""Kinds of experiments, a file for each: their measurements, and the figures they find.

It may import everything but the command line and report/. Begin with climbs.py; experiments.py of the folder above has
the interface.
"""
