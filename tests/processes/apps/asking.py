"""Asks for a pass over ``docs`` as often as its argument says."""

import sys

from app_under_test import knowledge  # type: ignore[import-not-found]

for _ in range(int(sys.argv[1])):
    knowledge.sync("docs")
knowledge.close()
