"""scrout over HTTP, for programs: stages as jobs, and one model that stands for the pool.

app.py has the addresses and openapi.py describes them; forms.py is what is sent and answered; callers.py says who may
what, jobs.py does it, conversations.py stands for `scrout/auto`, and store.py keeps jobs, choices and budgets.
"""
