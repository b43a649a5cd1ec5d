"""Images of a prompt."""
