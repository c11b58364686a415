"""Results as a page for a browser, and tables for the terminal.

It imports results, errors, files and matplotlib, and nothing that trains. Begin with page.py; figures/ draws.
"""
