CREATE TABLE schedules (
    name TEXT COLLATE "C" PRIMARY KEY,
    next_at BIGINT NOT NULL,
    body BYTEA NOT NULL
);

CREATE INDEX schedules_by_time ON schedules (next_at);
