"""One file per architecture family: it declares sizes and records steps, and computes nothing."""
