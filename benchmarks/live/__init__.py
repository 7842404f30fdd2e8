"""A live federation, measured from outside: its processes, its log, its control topic."""
