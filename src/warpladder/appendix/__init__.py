"""Appendices: the five course reports, features and a support vector machine, the ladder of matrix products.

They may import everything but the command line, and nothing in the core imports them. Begin with reproduce/__init__.py.
"""
