"""What a run has to say: its sentences and tables, and how a terminal shows them."""
