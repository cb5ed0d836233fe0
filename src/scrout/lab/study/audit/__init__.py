"""Whether a pool of fixers leaves a router anything to win."""
