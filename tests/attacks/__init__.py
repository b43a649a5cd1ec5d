"""One broken thing for every refusal of the treaty, named for its fault."""
