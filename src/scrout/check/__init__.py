"""The patch, examined on a clean workspace: what it changes, what breaks, what a reviewer should know."""
