"""Kernels against meanings."""
