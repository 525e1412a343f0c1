"""Texts as vectors, without a network. Any object that follows the `Embedder` protocol can take the place of `MiniLM`.

minilm       all-MiniLM-L6-v2 on onnxruntime: finds the weights, tokenizes, pools
onnx_graph   writes the ONNX graph of a BERT encoder
safetensors  reads the file of weights
"""
