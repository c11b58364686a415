"""Parts that several commands share: options, requests made from them, files, progress and tables.

May import what cli may, heavy parts inside functions. Begin with options.py and request.py.
"""
