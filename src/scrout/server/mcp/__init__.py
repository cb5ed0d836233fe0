"""scrout as a server of the Model Context Protocol, for other coding agents.

The tools' work is in scrout.server. answers.py shortens results for an agent's context, resources.py has the rest of a
run, server.py implements the protocol.
"""
