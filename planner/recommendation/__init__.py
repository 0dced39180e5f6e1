"""Which model and settings to run on a rig, and why."""
