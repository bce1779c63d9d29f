"""A short guided run: streams of changes, views that stay fresh, and what it would cost to recompute them.

``scenes`` says what is shown, ``play`` runs it, ``reevaluation`` has DuckDB as the rival and the judge,
``screen`` is the terminal, ``plots`` and ``report`` make the HTML page, ``show`` puts all of it together.
"""
