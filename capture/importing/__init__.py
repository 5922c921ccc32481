"""From files that a user names to a recording: recognised, read, merged on one clock, written."""
