"""Evaluation of a run: prequential metrics next to NoChange, and the result that is written as JSON."""
