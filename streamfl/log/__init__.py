"""What any log needs: a partition read for its clients, large values in parts, names of topics, dead letters."""
