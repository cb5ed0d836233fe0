"""The evaluation: a searcher on held-out tasks whose answer is known, greedy against sampled."""
