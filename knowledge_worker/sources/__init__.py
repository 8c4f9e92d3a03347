"""Documents from outside: folders, Git repositories and a user's own generators."""
