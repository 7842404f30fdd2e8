"""The settings of a live federation."""
