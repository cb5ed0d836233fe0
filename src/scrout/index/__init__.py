"""What a repository holds at one commit: its files, symbols, imports and words, cached by blob."""
