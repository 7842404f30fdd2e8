"""Long-running processes of a live federation: assembly of machines, ports and settings only."""
