"""Performance counters: names in any language, series of values, and what their types mean."""
