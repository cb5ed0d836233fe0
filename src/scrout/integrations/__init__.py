"""scrout where issues are: a label on GitHub or GitLab becomes a comment or a pull request.

Three steps in three jobs. `admit` decides whether a label counts, `work` runs scrout and may write nothing, `publish`
writes and runs nothing. Between them go an admission, which `work` cannot change, and a result, which `publish` does
not believe.
"""
