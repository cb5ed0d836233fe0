"""The searcher's hidden state, as a vector for the router."""
