"""Playing a plan, and what came of it as a recording."""
