"""Code from a user's file in a process of its own: it may crash, hang or cheat, and the climb goes on.

May import what timing may import, and timing/task.py. Begin with rung.py: process.py starts the process and holds its
limits, server.py is what runs in it, trainer.py is the trainer that the climb sees, messages.py what they send.
"""
