"""A search's result for people: Markdown and a page."""
