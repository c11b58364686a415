"""The pictures of the page, drawn by matplotlib as SVG whose text stays text and whose colours are the page's."""
