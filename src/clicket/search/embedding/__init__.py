"""Texts as vectors, without a network."""
