CREATE TABLE sessions (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    format BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    branch BIGINT NOT NULL,
    length BIGINT NOT NULL,
    parent TEXT COLLATE "C",
    call TEXT COLLATE "C",
    workdir TEXT COLLATE "C",
    agent_name TEXT COLLATE "C" NOT NULL,
    agent_label TEXT COLLATE "C" NOT NULL,
    title TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last BYTEA,
    leases BIGINT NOT NULL DEFAULT 0,
    lease_owner TEXT COLLATE "C",
    lease_until BIGINT NOT NULL DEFAULT 0
);

-- A page of a list is the end of one of these. Who is deleted would only be in the way.
CREATE INDEX sessions_by_time ON sessions (updated_at, id) WHERE status <> 'deleted';
CREATE INDEX sessions_by_workdir ON sessions (workdir, updated_at, id)
    WHERE status <> 'deleted' AND workdir IS NOT NULL;
CREATE INDEX sessions_by_agent ON sessions (agent_name, updated_at, id) WHERE status <> 'deleted';
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_by_status ON sessions (status, updated_at, id) WHERE status <> 'active';

CREATE TABLE definitions (
    session BIGINT PRIMARY KEY REFERENCES sessions (key),
    body BYTEA NOT NULL
);

CREATE TABLE branches (
    session BIGINT NOT NULL REFERENCES sessions (key),
    branch BIGINT NOT NULL,
    from_session BIGINT REFERENCES sessions (key),
    from_branch BIGINT,
    at BIGINT,
    PRIMARY KEY (session, branch)
);

CREATE TABLE batches (
    session BIGINT NOT NULL REFERENCES sessions (key),
    branch BIGINT NOT NULL,
    first BIGINT NOT NULL,
    count BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (session, branch, first)
);

CREATE TABLE control_messages (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session BIGINT NOT NULL REFERENCES sessions (key),
    body BYTEA NOT NULL
);

CREATE INDEX control_messages_by_session ON control_messages (session, number);
