"""StreamActions: what they ask of a decision, and how far they have come.

asked       what was read of each; what those that run ask for
exclusion   which of them wait for which
ruling      the next status of each
standing    how one stands, as its type finds it
objects     VolumeSnapshots, claims and Jobs: as they were read, what is to be done to them
drain, restart, move, reset, backfill    one type each; volume has two
workers     what several types have to know before they begin
"""
