"""Loops over single records, as machine code; what Python does around them is in the folder above."""
