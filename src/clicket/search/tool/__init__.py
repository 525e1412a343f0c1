"""The tool deep_search."""
