"""One trial: the cell of a study becomes a job for the engine, the lab runs it, its events become one raw record.

The rules that make trials comparable are here and nowhere else: order of the steps, cache states, syncing, settling,
verification. Descriptors only supply commands.
"""
