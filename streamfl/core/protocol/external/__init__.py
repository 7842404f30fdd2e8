"""What is told of a model of another library: named tables, and what such a model must offer."""
