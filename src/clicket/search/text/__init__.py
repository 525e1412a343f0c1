"""Functions on text that the index, planner, ranker and synthesizer share, so that they agree on what is equal.

terms       the terms by which texts are compared: folded, stemmed, without stopwords
names       names of people, places and works in a text, and when two are equal
sentences   the sentences of a text, as spans
chinese_words  a small dictionary of Chinese and English
queries     which of the planned queries are new
surrogates  removes lone surrogates
"""
