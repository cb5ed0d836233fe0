"""The dashboard: runs, their details, batches, fixers and the frontier in a browser, read-only."""
