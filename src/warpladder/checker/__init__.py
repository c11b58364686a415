"""`warpladder check`: the launches of a .cu file on the emulator, and each fault with its kind, its lines and a remedy.

It may import the emulator and proof/tolerance.py; only the command line imports it. Begin with check.py: description.py
reads what to launch, plan.py works it out, passes.py runs it, faults.py merges what was found.
"""
