"""Waking workers: Celery for production, a list for tests."""
