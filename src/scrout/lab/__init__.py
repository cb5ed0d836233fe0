"""The researcher's half: studies of outcomes, and training of searchers and rankers."""
