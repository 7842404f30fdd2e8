"""Records and labels in any partitions, regrouped by client: whose each message is, and in which order they are."""
