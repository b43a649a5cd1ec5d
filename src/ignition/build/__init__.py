"""Compiles kernels ahead of time: each distinct one once, with the same bytes everywhere."""
