"""One SQL file per question; `iotrace.analyze.library` loads and runs them."""
