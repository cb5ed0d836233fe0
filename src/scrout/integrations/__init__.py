"""scrout on GitHub and GitLab: a label on an issue leads to a comment or a pull request.

Three steps in three jobs. `admit` decides whether a label counts, `work` runs scrout without write access, `publish`
writes and runs nothing. They exchange an admission, which `work` cannot change, and a result, which `publish` does not
trust.
"""
