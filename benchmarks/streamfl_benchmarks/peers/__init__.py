"""Peers: what Master-FL is compared with, each true to its source, outside the protocol of a federation."""
