"""Files and devices to play on: what must not be written, opening, filling."""
