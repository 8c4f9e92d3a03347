"""Leases: Redis for production, memory for tests."""
