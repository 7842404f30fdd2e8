"""`streamfl init`: a settings file for records that there are, in a file or in topics of a log."""
