"""Persistent training: whole epochs in one launch, by a kernel that is assembled for the net.

It imports ops, device and kernelwise/. Begin with source.py, which writes the kernel from the phases of phases.cuh;
plan.py chooses tiles and blocks.
"""
