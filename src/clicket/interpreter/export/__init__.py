"""Runs as a notebook and as a page."""
