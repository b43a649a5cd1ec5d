"""The whole worker in made-up worlds: one seed, one history, every promise looked at every turn."""
