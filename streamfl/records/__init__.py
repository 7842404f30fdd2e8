"""Reads records: cells and columns, files, and the formats of messages."""
