"""Tests of the benches' pure parts: reading answers, targets, placements, documents."""
