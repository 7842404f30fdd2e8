"""How well a run did: prequential metrics with NoChange beside them, and the result that is written down."""
