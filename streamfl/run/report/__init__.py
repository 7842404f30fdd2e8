"""The HTML report of one run: a self-contained page that explains what happened and when."""
