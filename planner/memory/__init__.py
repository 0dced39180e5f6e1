"""Memory of a launch, term by term, in the words of vLLM's own accounting."""
