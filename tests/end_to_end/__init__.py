"""The prepared core as a whole, against an independent oracle."""
