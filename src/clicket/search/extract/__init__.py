"""Files become text with a title and headings, one module for each kind of file."""
