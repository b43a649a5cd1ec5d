"""Writes a core: frames, weights, body, signature, locations; then reopens and checks it."""
