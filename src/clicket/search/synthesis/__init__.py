"""Answers made of sentences that are there, and the check that they are."""
