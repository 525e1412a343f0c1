"""What to ask next."""
