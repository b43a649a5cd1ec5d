"""The tests of every room."""
