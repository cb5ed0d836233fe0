"""Makes tasks: takes a published package, breaks one function, and writes an issue about the symptom."""
