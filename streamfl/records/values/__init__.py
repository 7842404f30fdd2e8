"""One value of a record: a missing one, a number, a text, a time. The same rules for files, messages and Python."""
