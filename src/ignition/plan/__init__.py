"""From recordings to launches: what each step becomes on a target, and where everything lies."""
