"""Virtual replay: a recording played on a model of storage, in virtual time."""
