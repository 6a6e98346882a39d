CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    format INTEGER NOT NULL,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    length INTEGER NOT NULL,
    parent TEXT,
    call TEXT,
    workdir TEXT,
    agent_name TEXT NOT NULL,
    agent_label TEXT NOT NULL,
    title TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last BLOB,
    leases INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A page of a list is the end of one of these. Who is deleted would only be in the way.
CREATE INDEX sessions_by_time ON sessions (updated_at, id) WHERE status <> 'deleted';
CREATE INDEX sessions_by_workdir ON sessions (workdir, updated_at, id)
    WHERE status <> 'deleted' AND workdir IS NOT NULL;
CREATE INDEX sessions_by_agent ON sessions (agent_name, updated_at, id) WHERE status <> 'deleted';
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_by_status ON sessions (status, updated_at, id) WHERE status <> 'active';

CREATE TABLE definitions (
    session INTEGER PRIMARY KEY REFERENCES sessions (key),
    body BLOB NOT NULL
) STRICT;

CREATE TABLE branches (
    session INTEGER NOT NULL REFERENCES sessions (key),
    branch INTEGER NOT NULL,
    from_session INTEGER REFERENCES sessions (key),
    from_branch INTEGER,
    at INTEGER,
    PRIMARY KEY (session, branch)
) STRICT, WITHOUT ROWID;

CREATE TABLE batches (
    session INTEGER NOT NULL REFERENCES sessions (key),
    branch INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session, branch, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE control_messages (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key),
    body BLOB NOT NULL
) STRICT;

CREATE INDEX control_messages_by_session ON control_messages (session, number);
