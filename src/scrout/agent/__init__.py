"""The turn loop that scout and fixer share: a model, its tools, a budget."""
