"""Recordings that come with iotrace; see README.md."""
