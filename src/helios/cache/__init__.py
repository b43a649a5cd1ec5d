"""Pages and what holds them; numbers only, no bytes."""
