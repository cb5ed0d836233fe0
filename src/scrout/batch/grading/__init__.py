"""The tests that judge a patch, over every patch of a batch: a gold control first, chance and infrastructure apart."""
