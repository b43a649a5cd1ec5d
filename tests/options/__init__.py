"""Tests of options and the limits made of them."""
