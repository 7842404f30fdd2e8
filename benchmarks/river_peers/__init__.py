"""streamfl beside River's and CapyMOA's learners: the same records, one at a time, predicted and then learnt."""
