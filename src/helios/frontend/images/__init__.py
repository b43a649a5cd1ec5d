"""Images of a prompt: from data URIs to pixels, placeholder tokens, positions and tensors."""
