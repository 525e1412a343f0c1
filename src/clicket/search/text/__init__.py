"""Functions on text that the index, planner, ranker and synthesizer share. `clicket.model.text` has the terms by which they compare texts.

names       names of people, places and works in a text, and when two are equal
sentences   the sentences of a text, as spans
chinese_words  a small dictionary of Chinese and English
queries     which of the planned queries are new
"""
