"""Recordings: what was recorded is what the model computes."""
