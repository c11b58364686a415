"""Pictures of a page, drawn by matplotlib as SVG or PNG.

It imports results/ and the page's style. Begin with svg.py; ladder.py draws the ladder.
"""
