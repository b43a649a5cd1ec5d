"""Output syntax: tokens become reasoning, content and calls, by the contract's data alone."""
