"""Federated learning on streams that drift."""

__version__ = "0.1.0"
