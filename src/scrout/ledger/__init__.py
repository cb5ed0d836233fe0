"""What every run did and cost: an append-only SQLite file, and the audit that re-derives its totals."""
