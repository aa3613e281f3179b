"""A day of an application whose number of workers is decided by its load.

load    what comes in: two peaks, bursts, noise, a dead hour, a partition that no worker helps
world   StreamThreads that process, workers that start, warm-ups that must precede every move
day     both, minute by minute, with the decision; what must hold
"""
