"""The results of a batch as files: predictions, a summary, and a page."""
