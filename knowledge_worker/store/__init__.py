"""Where truth lives: the promises (protocol) and PostgreSQL, which keeps them."""
