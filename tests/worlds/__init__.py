"""A simulated federation in a bad world: faults of transport and processes, and what must hold whatever they are."""
