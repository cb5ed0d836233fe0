"""What a batch came to, as files: predictions, a summary, and a page."""
