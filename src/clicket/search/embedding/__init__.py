"""Texts as vectors, without a network. `MiniLM` is the one that is here; anything with the shape of `Embedder` will do."""
