"""When a provider may be called next, for all processes together."""
