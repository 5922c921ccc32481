"""Estimates with intervals: histograms, the bootstrap, profile likelihood."""
