"""The order of everything that was found, over all rounds."""
