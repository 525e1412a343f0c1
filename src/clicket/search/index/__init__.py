"""The local index: documents in one SQLite file, found by their terms, their names and, when there is an embedder, their meaning."""
