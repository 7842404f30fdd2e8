"""The method itself: pure machines and mathematics, with no clock, no I/O and no settings of their own."""
