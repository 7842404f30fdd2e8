"""Registries by name: what ships with streamfl, and what other packages add by entry point."""
