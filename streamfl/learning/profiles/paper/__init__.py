"""Profile `paper`: Master-FL as published, with instances at many time scales."""
