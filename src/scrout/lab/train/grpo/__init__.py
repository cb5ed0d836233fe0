"""Reinforcement of a searcher on episodes of its own: what they are worth, how they are drawn, and what is learned."""
