"""Native models: they learn record by record, and a mixture of their predictions serves."""
