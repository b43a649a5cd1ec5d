"""The only place where parts meet: one module a process, and what they share."""
