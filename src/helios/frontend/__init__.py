"""Text in: templates, tokens, sampling, limits; a request becomes a frozen `PreparedRequest`."""
