"""Texts as vectors, made by a library, a server or a model file that the user names. No model comes with clicket.

embedder  an `Embedder` over a function from texts to vectors
kinds     the functions of fastembed, sentence-transformers, an ONNX file and OpenAI-compatible servers, by their names
"""
