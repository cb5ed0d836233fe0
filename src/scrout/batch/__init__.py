"""Many tasks: reading them, running them in arms, grading what came of it, and making tasks of our own."""
