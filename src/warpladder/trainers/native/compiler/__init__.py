"""The native rung's compiler: vector instructions in LLVM's terms, functions compiled ahead, machine code kept on disk.

It imports ops/jit. Begin with emit.py and simd.py for the instructions, machinecode.py for the files.
"""
