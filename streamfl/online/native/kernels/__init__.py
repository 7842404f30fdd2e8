"""Compiled loops over single records; the Python code around them is in the folder above."""
