"""Matrix programs on Spark: blocks held by workers, thin factors broadcast, one round per level.

Every version of a large matrix is a set of block files that never change once they are written. That one rule
carries everything: a task may run twice, a worker may die, an update may be taken back, and nothing has to be
undone, because nothing was overwritten.
"""
