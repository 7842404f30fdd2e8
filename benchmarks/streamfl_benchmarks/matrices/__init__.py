"""Clients whose concepts change at times of their own: their records, and networks that are federated over them."""
