"""What every run did and cost, append-only in SQLite or PostgreSQL, and the audit that derives its totals again."""
