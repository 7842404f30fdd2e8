"""External models in a federation: their states are exported as named tables, merged, and imported again."""
