"""The gate: replays the scout's claim on the unpatched repository and strips what is false."""
