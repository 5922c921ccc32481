"""Run as `python -m iotrace.cli`."""

from .start import main

main()
