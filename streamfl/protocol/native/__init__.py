"""The values that describe native models, the models of ours that learn between rounds."""
