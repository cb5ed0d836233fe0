"""scrout over HTTP, for programs: stages as jobs, and one model that stands for the pool.

app.py has the addresses and description.py describes them; schemas.py is what is sent and answered; access.py says
who may what, jobs.py does it, conversations.py stands for `scrout/auto`, and store.py keeps jobs, choices and budgets.
"""
