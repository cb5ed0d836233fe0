"""Where the money went, and over how many tasks it pays."""
