"""What one can ask for, without HTTP, a command line or Celery."""
