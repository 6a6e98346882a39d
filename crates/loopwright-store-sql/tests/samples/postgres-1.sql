CREATE SCHEMA loopwright;
SET search_path TO loopwright;
CREATE TABLE version (number BIGINT NOT NULL);
INSERT INTO version VALUES (1);

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

INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) OVERRIDING SYSTEM VALUE VALUES
    (1, 'a', 1, 'active', 5, 1, 2, NULL, NULL, '/work', 'agent', 'agent', 'about', 1800000000000, 1800000004000, '\xfaa5ac503ffb7a201495a1ed80691d21', 1, 'me', 4102444800000);
INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) OVERRIDING SYSTEM VALUE VALUES
    (2, 'b', 1, 'active', 2, 0, 3, 'a', NULL, NULL, 'agent', 'agent', NULL, 1800000003000, 1800000003000, '\x820ce949711b9bc3e6056cedaaa2e733', 0, NULL, 0);
INSERT INTO sessions (key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title, created_at, updated_at, last, leases, lease_owner, lease_until) OVERRIDING SYSTEM VALUE VALUES
    (3, 'gone', 1, 'deleted', 2, 0, 1, NULL, NULL, NULL, 'agent', 'agent', NULL, 1800000000000, 1800000004000, NULL, 0, NULL, 0);

INSERT INTO definitions (session, body) VALUES
    (1, convert_to('{"name":"agent","description":"does things","system_prompt":"You do things."}', 'UTF8'));
INSERT INTO definitions (session, body) VALUES
    (2, convert_to('{"name":"agent","description":"does things","system_prompt":"You do things."}', 'UTF8'));
INSERT INTO definitions (session, body) VALUES
    (3, convert_to('{"name":"agent","description":"does things","system_prompt":"You do things."}', 'UTF8'));

INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (1, 0, NULL, NULL, NULL);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (1, 1, 1, 0, 1);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (2, 0, 1, 0, 2);
INSERT INTO branches (session, branch, from_session, from_branch, at) VALUES
    (3, 0, NULL, NULL, NULL);

INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 0, 0, 1, convert_to('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"one"}}]}}}}}}]', 'UTF8'));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 0, 1, 2, convert_to('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"two"}}]}}}}}},{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"three"}}]}}}}}}]', 'UTF8'));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (1, 1, 1, 1, convert_to('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"anew"}}]}}}}}}]', 'UTF8'));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (2, 0, 2, 1, convert_to('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"other"}}]}}}}}}]', 'UTF8'));
INSERT INTO batches (session, branch, first, count, body) VALUES
    (3, 0, 0, 1, convert_to('[{"at":"2027-01-15T08:00:00.000Z","change":{"state_edited":{"by":"test","edit":{"append":{"section":"messages","message":{"role":"user","parts":[{"content":{"text":"one"}}]}}}}}}]', 'UTF8'));

INSERT INTO control_messages (number, session, body) OVERRIDING SYSTEM VALUE VALUES
    (1, 1, convert_to('"stop"', 'UTF8'));

ALTER TABLE sessions ALTER COLUMN key RESTART WITH 10;
ALTER TABLE control_messages ALTER COLUMN number RESTART WITH 10;
