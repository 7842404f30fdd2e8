"""What lives, what serves, and what follows an alarm: the strategies of a federation."""
