"""A client: it buffers records, works on them when a round is opened, and answers what is served."""
