"""Texts as deep search, the search for tools and the readers of web pages see them, so that all agree on what is equal.

terms       the terms of a text: folded, stemmed, without stopwords
charset     bytes to text
surrogates  characters that a text must not have
json_in_text  the JSON values of a model's text
server_sent_events  events and lines out of pieces of bytes
links       the links of a text, and the host that each leads to
personal_data  e-mail addresses, phone numbers, card numbers and IBANs in a text
"""
