"""The one-call fixer: shows a model the likeliest code, and applies its answer as an edit."""
