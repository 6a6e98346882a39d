CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (key),
    task BLOB NOT NULL,
    status TEXT NOT NULL,
    claims INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    ready_at INTEGER NOT NULL,
    owner TEXT,
    until INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- What is over, which is most of them, would only be in the way of whoever looks for work.
CREATE INDEX jobs_open ON jobs (number) WHERE status IN ('queued', 'running');
CREATE INDEX jobs_open_by_session ON jobs (session, number) WHERE status IN ('queued', 'running');
CREATE INDEX jobs_by_session ON jobs (session, number);
CREATE INDEX jobs_by_status ON jobs (status, number);
