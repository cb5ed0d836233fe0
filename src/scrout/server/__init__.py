"""scrout's services for other programs: shared code of the MCP server and the API."""
