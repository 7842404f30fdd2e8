"""A client's records until a round takes them: buffered, matched with labels, held out."""
