"""What the treaty's small parts promise on their own."""
