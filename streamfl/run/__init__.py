"""Runs on recorded streams: replay, its evaluation and report, models in files, estimators."""
