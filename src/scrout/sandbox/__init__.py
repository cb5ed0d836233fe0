"""Where untrusted commands run: isolation tiers, workspaces, the repository's environment, and replay."""
