"""Reading: terms, names and sentences of a text. Nothing here knows of documents or searches."""
