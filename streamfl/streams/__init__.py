"""Recorded streams: reads files, deals records to clients, imposes drift."""
