"""Reference material for AI agents: indexed in the background, kept in step with its sources, searched by meaning."""
