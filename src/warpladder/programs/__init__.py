"""Programs of `warpladder run`: whole CUDA programs, host and device code as one C++ program on the emulator.

It may import the emulator, the device's declarations and the checker's faults; only the command line imports it.
Begin with run.py: sources.py collects the files, rewrite.py turns launches into calls, build.py compiles. The C++ in
headers/ and runtime/ is the CUDA runtime for the program.
"""
