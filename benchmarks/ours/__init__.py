"""clicket's side of each question. Only the public API is used, so that the figures are what a user gets."""
