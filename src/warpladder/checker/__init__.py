"""Checker of `warpladder check`: runs the launches of a .cu file on the emulator, and reports each fault with its kind,
its lines and a remedy.

It may import the emulator and proof/tolerance.py; only the command line imports it. Begin with check.py. description.py
reads the launches, plan.py computes their sizes and arguments, passes.py runs them, faults.py merges the faults.
"""
