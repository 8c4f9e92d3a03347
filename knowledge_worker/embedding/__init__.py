"""Texts to vectors: OpenAI-compatible servers, local models, and the names that lead to them."""
