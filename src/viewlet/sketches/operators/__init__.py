"""Incremental operators over annotated rows: how each operator of a query changes its sketch.

A sketch follows the data without being captured again: every operator takes the change of its input, rows
with fragments and weights, updates what it remembers, and gives the change of its own rows (``base.py``).
``build.py`` turns a plan into operators, ``leaf.py`` lets the database compute what needs no memory, and
``merge.py`` counts fragments at the top.
"""
