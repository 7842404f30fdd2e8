"""The report of one run: a page that explains, without any other file, what happened and when."""
