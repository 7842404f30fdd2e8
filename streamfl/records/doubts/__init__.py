"""What looks wrong in the values of a file or of messages, said once."""
