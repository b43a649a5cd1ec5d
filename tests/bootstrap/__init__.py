"""What is decided while a core is loaded."""
