"""Constrained output: what a client asks of the shape of an answer, as a grammar, and its masks.

The front makes a `Constraint` in a preparation thread; the worker compiles it and owns one
`Matcher` a lane.  Values cross, never matchers.
"""
