"""Profile `paper`: Master-FL as published, instances at many time scales."""
