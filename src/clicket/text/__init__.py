"""How texts are compared, in deep search and in the search for tools: one tokenizer, so that both agree on what is equal.

terms       the terms of a text: folded, stemmed, without stopwords
surrogates  characters that a text must not have
"""
