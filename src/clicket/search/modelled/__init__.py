"""The parts of a search that ask a language model, and believe nothing that it says unseen."""
