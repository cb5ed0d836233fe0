"""Where studies get their outcomes: the paper's files, public leaderboards, one's own runs."""
