"""Results as a page for a browser, and tables for the terminal.

It imports results/ and matplotlib, and nothing that trains. Begin with page.py; figures/ draws.
"""
