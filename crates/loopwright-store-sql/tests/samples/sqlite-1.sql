PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA application_id = 1282371440;
PRAGMA user_version = 1;

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

INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) VALUES
    (1, 'a', 1, 'active', 5, 1, 2, NULL, NULL, '/work', 'agent', 'agent', 'about', 1800000000000, 1800000004000, X'faa5ac503ffb7a201495a1ed80691d21', 1, 'me', 1800000034000);
INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) VALUES
    (2, 'b', 1, 'active', 2, 0, 3, 'a', NULL, NULL, 'agent', 'agent', NULL, 1800000003000, 1800000003000, X'820ce949711b9bc3e6056cedaaa2e733', 0, NULL, 0);
INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) VALUES
    (3, 'gone', 1, 'deleted', 2, 0, 1, NULL, NULL, NULL, 'agent', 'agent', NULL, 1800000000000, 1800000004000, NULL, 0, NULL, 0);

INSERT INTO definitions (session, body) VALUES
    (1, CAST('{"name":"agent","description":"does things","system_prompt":"You do things."}' AS BLOB));
INSERT INTO definitions (session, body) VALUES
    (2, CAST('{"name":"agent","description":"does things","system_prompt":"You do things."}' AS BLOB));
INSERT INTO definitions (session, body) VALUES
    (3, CAST('{"name":"agent","description":"does things","system_prompt":"You do things."}' AS BLOB));

INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (1, 0, NULL, NULL, NULL);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (1, 1, 1, 0, 1);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (2, 0, 1, 0, 2);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (3, 0, NULL, NULL, NULL);

INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 0, 0, 1, CAST('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"one"}}]}}}}}}]' AS BLOB));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 0, 1, 2, CAST('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"two"}}]}}}}}},{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"three"}}]}}}}}}]' AS BLOB));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 1, 1, 1, CAST('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"anew"}}]}}}}}}]' AS BLOB));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (2, 0, 2, 1, CAST('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"other"}}]}}}}}}]' AS BLOB));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (3, 0, 0, 1, CAST('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"one"}}]}}}}}}]' AS BLOB));

INSERT INTO control_messages (number, session, body) VALUES
    (1, 1, CAST('"stop"' AS BLOB));
