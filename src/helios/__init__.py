"""After preparation: serve a core.

One runtime for every model; nothing here knows a model by name, compiles, captures or
allocates on a device while it serves.
"""
