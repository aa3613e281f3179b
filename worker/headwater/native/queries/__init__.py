"""The process of a worker that answers queries, and what others say to it."""
