"""Compiler of the native rung: vector instructions in LLVM's terms, compiled functions, machine code on disk.

It imports ops/jit and files. Begin with emit.py for the instructions, functions.py for the compiled functions.
"""
