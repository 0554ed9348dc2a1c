"""The auditor of reports: computes again what sweeps and fusions say, and shares no code with the product."""
