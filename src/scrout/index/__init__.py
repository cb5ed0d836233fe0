"""What a repository holds at one commit: files, symbols, imports and words, read from git objects and cached by blob."""
