"""The one-call fixer: it shows a model the likeliest code, and takes its answer as an edit."""
