"""Real servers without installing any: PostgreSQL and Valkey from wheels, and the supervisor of ``up``."""
