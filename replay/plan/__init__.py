"""From a recording to the I/Os to be played: chosen, scaled, placed on targets, put in order."""
