"""A reproduced report as tables, pictures and a page: what it says beside what was measured."""
