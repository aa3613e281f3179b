"""Queries of a worker's stores: the main process' part, and what a program of the user calls."""
