"""What scrout does for other programs, however they ask: what the tools of an agent (mcp) and the API share."""
