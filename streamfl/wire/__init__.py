"""Values, messages and states as bytes; keys, signatures and masks."""
