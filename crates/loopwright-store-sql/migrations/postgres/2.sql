CREATE TABLE log_entries (
    session BIGINT NOT NULL REFERENCES sessions (key),
    log TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (session, log, number)
);
