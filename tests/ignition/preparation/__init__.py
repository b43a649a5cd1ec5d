"""Tests of what is declared before recording."""
