"""Configuration: the settings models (settings.py)."""
