"""The two roles, assembled."""
