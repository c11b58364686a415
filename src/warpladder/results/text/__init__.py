"""Results as text: tables for the terminal and notebooks, and the sentences of a climb's results.

It imports results and show.py. Begin with table.py; words.py has the sentences.
"""
