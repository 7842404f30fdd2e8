"""Evaluation of a run: prequential metrics beside NoChange, and the result that is written as JSON."""
