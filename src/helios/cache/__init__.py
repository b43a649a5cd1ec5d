"""Pages, rows and host slots, what holds them, and the prefix tree; numbers only, no bytes."""
