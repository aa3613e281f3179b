"""StreamActions: what they ask of a decision, and how far they have come.

asked       what was read of each; what those that run ask for    exclusion   which waits for which
ruling      the next status of each                               standing    how one stands
drain       DrainWorker      restart     Restart
"""
