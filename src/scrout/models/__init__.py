"""Language models behind HTTP: a client of OpenAI-compatible endpoints and a scripted stand-in that speaks the same."""
