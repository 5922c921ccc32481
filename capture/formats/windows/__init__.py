"""What Windows and SQL Server write: traces, counter logs, events, DMV snapshots."""
