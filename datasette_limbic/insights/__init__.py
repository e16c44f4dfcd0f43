"""The review queue: what the reports propose, one decision for a person at a time."""
