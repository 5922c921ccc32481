"""Anything that makes a recording of production I/O: readers of trace files, and a live recorder."""
