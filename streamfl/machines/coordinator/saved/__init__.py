"""What a coordinator continues with after a kill: every Commit saves it."""
