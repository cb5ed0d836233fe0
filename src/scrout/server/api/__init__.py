"""scrout over HTTP, for programs: stages as jobs, and one model that represents the pool.

app.py has the endpoints, description.py their OpenAPI description, schemas.py the requests and responses, access.py the
access control, jobs.py the jobs, conversations.py the model `scrout/auto`, and store.py jobs, choices and budgets.
"""
