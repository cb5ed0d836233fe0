"""scrout as a server of the Model Context Protocol, for the agents that people already use.

service.py does what a tool is for, answers.py makes it short enough for an agent's context, attending.py lets a client
watch and call off the work, resources.py has the rest of a run, server.py and http.py speak the protocol.
"""
