"""The embedded searcher: no model, no network, no cost."""
