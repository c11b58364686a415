"""Raw tables: text columns, gaps and labels by name, from files and data frames.

It imports errors, files and modules of data. Begin with load.py; text.py reads the text of a file.
"""
