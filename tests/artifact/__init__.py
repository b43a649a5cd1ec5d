"""Tests of opening cores."""
