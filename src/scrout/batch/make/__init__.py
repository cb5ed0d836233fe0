"""Tasks of our own: a published package, one function of it made wrong, and an issue about what then goes wrong."""
