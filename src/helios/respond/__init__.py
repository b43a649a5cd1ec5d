"""Tokens to answers: text, and the reason it ended; formats are `serve`'s."""
