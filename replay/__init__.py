"""A recording in, a recording out: plan, scale, address map, target safety, engine."""
