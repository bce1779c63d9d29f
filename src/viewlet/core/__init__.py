"""What every domain shares: types, scalars, frozen nodes, rewriting, algebra, delta classes, names.

Nothing here imports anything else of Viewlet but its errors.
"""
