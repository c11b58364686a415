"""The checker behind `warpladder check`: launches of a .cu file on the emulator, with every fault named by kind, line
and mend.

It may import the emulator (device/emulator) and the proof's bound (proof/tolerance.py); only the command line imports
it. Begin with check.py: describe.py reads what to launch, plan.py works it out, once.py runs it, faults.py merges what
was found.
"""
