"""Inline PTX of kernels as C++, which a CPU's compiler takes.

It may import the device's declarations; the emulator's rewriting imports it. Begin with statement.py: it reads an asm
statement; instructions.py names the functions that write C++ for each kind of instruction.
"""
