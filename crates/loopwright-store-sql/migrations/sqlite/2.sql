CREATE TABLE log_entries (
    session INTEGER NOT NULL REFERENCES sessions (key),
    log TEXT NOT NULL,
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session, log, number)
) STRICT, WITHOUT ROWID;
