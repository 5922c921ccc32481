"""Recordings and sweeps whose true answers are known, because a law or a plant made them. See README.md."""
