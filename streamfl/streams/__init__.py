"""Recorded streams: read from files, dealt to clients, given drift."""
