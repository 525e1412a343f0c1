"""Where journals live. Each store keeps the laws of `ports.store`; `compose` chooses one by its URL."""
