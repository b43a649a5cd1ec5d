"""Recordings: a recipe's calls as steps over named operands, and what the steps mean."""
