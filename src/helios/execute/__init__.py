"""Binds programs, packs host values, submits, reads completions; owns staging until its fence."""
