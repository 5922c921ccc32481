"""What storage arrays report of themselves."""
