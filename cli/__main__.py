"""Run as `python -m iotrace.cli`."""

from .main import main

main()
