"""External models: the interface that a model of another library implements, and its state as named tables."""
