"""scrout as a server of the Model Context Protocol, for the agents that people already use.

What a tool does is in scrout.server. answers.py makes it short enough for an agent's context, resources.py has the
rest of a run, server.py speaks the protocol.
"""
