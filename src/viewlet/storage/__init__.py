"""The durable container: one SQLite file with a log of commits and definitions, and the newest checkpoint.

``encode.py`` and ``definitions.py`` say what is written, ``container.py`` where, ``lockfile.py`` who may
write, ``journal.py`` when; ``checkpoint.py`` and ``recover.py`` bring a database to the file and back.
"""

from viewlet.storage.journal import Durability, Durable, Journal, Unlogged
from viewlet.storage.recover import Progress, open_into

__all__ = ["Durability", "Durable", "Journal", "Progress", "Unlogged", "open_into"]
