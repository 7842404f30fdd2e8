"""Closing a round: from what was collected to the entry and the next round."""
