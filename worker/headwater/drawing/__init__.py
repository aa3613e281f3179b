"""Pictures of topologies: a graph of names, as a Mermaid flowchart or as an SVG.

The graph is made of a topology (``graph.drawing_of``), or of what a worker has reported about one.
"""
