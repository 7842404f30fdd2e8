"""A model of another library in a federation: what it learns is told as named tables, merged, and put in again."""
