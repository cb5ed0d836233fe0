"""The dashboard: runs, their stories, batches, fixers and the frontier in a browser, read-only."""
