"""Federations whose clients are real: the same records by a federation, by each client alone, and by peers.

Where streams are dealt to clients, these are alike. Here a client is a person, a valve, an airport or a chick.
"""
