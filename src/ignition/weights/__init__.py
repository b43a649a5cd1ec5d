"""Reading checkpoints: what a model was published as, before a recipe says what it means.

`checkpoint.open_checkpoint` is the door; everything it hands out is typed, named and
checked, and everything it refuses is a `CheckpointError` that says what to do.
"""
