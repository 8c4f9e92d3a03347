"""Celery entry points: they translate and leave."""
