"""Tables as people have them: text columns, gaps and labels by name, from files and data frames.

It imports errors, files and what is next to it in data. Begin with load.py; text.py reads the text of a file.
"""
