"""Bringing sources with clocks of their own onto one, and saying how well that is known."""
