"""Commands of people who run a federation."""
