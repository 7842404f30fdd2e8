"""Records and labels in any partitions, repartitioned by client: whose each message is, and their order."""
