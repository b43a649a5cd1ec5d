"""Tests of reading checkpoints."""
