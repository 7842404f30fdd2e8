"""A model of somebody else in a federation: what it learns is told as named tables, merged, and put in again."""
