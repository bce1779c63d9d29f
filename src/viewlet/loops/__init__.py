"""Stage 5: trigger statements to loops, lookups and updates, shared by every emitter."""
