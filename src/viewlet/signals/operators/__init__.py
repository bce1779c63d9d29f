"""Running operators: each turns chunks into chunks and keeps in plain arrays what later chunks need."""
