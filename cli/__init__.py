"""The command line, the only room that knows them all; one file per command group."""
