"""What is told of the models that learn between rounds: values only."""
