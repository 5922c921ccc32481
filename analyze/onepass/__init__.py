"""One pass over the I/Os of a recording in order of time, from which every figure of `describe` is made."""
