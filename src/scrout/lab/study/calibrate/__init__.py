"""Feature sets by heads: how well probabilities are predicted, and what that saves."""
