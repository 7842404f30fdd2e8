"""The command line: options and messages, without logic."""
