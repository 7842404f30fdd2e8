"""What clients and the coordinator say to one another, and the values in it."""
