"""``python -m knowledge_worker.cli`` is ``knowledge-worker``."""

from knowledge_worker.cli import main

if __name__ == "__main__":
    main()
