"""What a client alone knows, and never sends: its own model, its last answers, its nearest records."""
