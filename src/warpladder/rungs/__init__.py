"""Rungs of the ladder, a file each: name, idea, reasons why it cannot train, and construction of its trainer.

They import trainers and ops/tables; ladder.py lists them in order. Begin with naive.py; peers/ has the programs of
others.
"""
