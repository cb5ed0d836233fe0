"""The content of a repository at one commit: its files, symbols, imports and words, cached by blob."""
