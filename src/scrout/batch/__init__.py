"""Many tasks: reading them, running them in arms, grading the patches, and making new tasks."""
