"""What a coordinator collects while a round is open."""
