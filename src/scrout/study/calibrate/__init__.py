"""Feature sets by heads: how well chances are predicted, and what that saves."""
