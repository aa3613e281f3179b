"""The native engine: StreamThread and StateUpdater processes, pure decisions that drive them."""
