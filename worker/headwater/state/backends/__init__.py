"""Where committed entries lie: in memory, or in RocksDB (the only importer of rocksdict)."""
