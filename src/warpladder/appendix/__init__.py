"""Appendices: the five course reports, features with a support vector machine, and the ladder of matrix products.

They may import everything but the command line, and nothing in the core imports them. Begin with reproduce/__init__.py.
"""
