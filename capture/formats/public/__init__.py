"""Traces that researchers and cloud providers published."""
