"""Nouns and rules; nothing here reads or writes anything."""
