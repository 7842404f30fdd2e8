"""Which tests run, in which order, and what they cost."""
