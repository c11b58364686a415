"""Reproduced report as tables, pictures and a page: reported figures next to measured ones.

It imports report/, and results.py of the folder above. Begin with page.py.
"""
