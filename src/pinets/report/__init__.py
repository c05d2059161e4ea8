"""Figures and self-contained HTML pages: whatever a reader would rather look at."""
