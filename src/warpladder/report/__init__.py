"""What a climb found, for people: a table for the terminal and a page for a browser. Both read `Results` and nothing
else.
"""
