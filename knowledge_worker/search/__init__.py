"""One query, step by step: what it may see, the order of what was found, how much is handed over."""
