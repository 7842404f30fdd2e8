"""Native models: they learn record by record between rounds, and a mixture of their predictions serves."""
