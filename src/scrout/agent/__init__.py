"""The turn loop that scout and fixer share: a model, one shell tool, a budget."""
