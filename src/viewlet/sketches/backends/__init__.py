"""Databases that hold the data: what a sketch store asks of each (``base.py``), one file per database."""
