"""Other people's agents over clicket's runtime: one module for each kit, imported only when it is used.

`clicket.adapters.anthropic` and `.openai` need no SDK themselves: they read its objects, or plain dictionaries of the same
shape. Everything that a model may have written wrongly becomes a result that says so; exactly one for each call, in order.
"""
