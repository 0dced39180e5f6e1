"""What can be wrong with a request to the planner; each message is one line for the user."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan cannot be made as asked; the message says what is wrong and what to do."""
