"""Workloads, peers and results."""
