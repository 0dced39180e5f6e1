"""Judging a launch that someone has in mind: findings, and the smallest changes that mend it."""
