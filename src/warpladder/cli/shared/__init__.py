"""Parts that several commands share: options, requests, files, progress and tables.

May import what cli may, heavy parts inside functions. Begin with options.py and request.py.
"""
