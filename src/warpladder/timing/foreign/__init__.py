"""Separate process for the code of a user's file: the code may crash, hang or cheat without harm to the climb.

May import what timing may import, and timing/task.py. Begin with rung.py. process.py starts the process and enforces
its limits, server.py runs in it, trainer.py is the trainer for the climb, messages.py is the protocol between them.
"""
