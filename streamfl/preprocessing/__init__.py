"""Scaling and registries that clients agree on through the coordinator."""
