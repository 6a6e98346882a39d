CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    next_at INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE INDEX schedules_by_time ON schedules (next_at);
