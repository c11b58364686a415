"""Inline PTX of kernels, translated to C++ for a CPU's compiler.

It may import the device's declarations; the emulator's rewriting imports it. Begin with statement.py: it reads an asm
statement; instructions.py lists the functions that write C++ for each kind of instruction.
"""
