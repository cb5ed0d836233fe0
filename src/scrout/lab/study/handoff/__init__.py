"""What the handoff does to each fixer, paired by task."""
