"""Encoders beside a language model, shared by the families that use them."""
