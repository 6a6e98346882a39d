CREATE TABLE jobs (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    session BIGINT NOT NULL REFERENCES sessions (key),
    task BYTEA NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    claims BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    crashes BIGINT NOT NULL DEFAULT 0,
    ready_at BIGINT NOT NULL,
    owner TEXT COLLATE "C",
    until BIGINT NOT NULL DEFAULT 0,
    reason TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- What is over, which is most of them, would only be in the way of whoever looks for work.
CREATE INDEX jobs_open ON jobs (number) WHERE status IN ('queued', 'running');
CREATE INDEX jobs_open_by_session ON jobs (session, number) WHERE status IN ('queued', 'running');
CREATE INDEX jobs_by_session ON jobs (session, number);
CREATE INDEX jobs_by_status ON jobs (status, number);
