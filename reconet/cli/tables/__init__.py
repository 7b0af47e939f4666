"""Results as tables for a terminal: one file per verb or group, and table.py for their layout."""
