"""Specimens of the treaty, and tests that shapes, wire and numbers keep to it."""
