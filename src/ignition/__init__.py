"""Before serving: turn a checkpoint into a signed core.

Records programs, compiles kernels, lays out weights, assembles the contract and signs.
Knows nothing of how cores are served; shares only `prepared` with the server.
"""
