"""The treaty: what a core may say, how it is written down, and how it is read back.

Knows nothing of how cores are made or served.  Imports nothing of ours.
"""
