-- Rows in the order in which they came, beside an index: an entry that is added to one of many logs then changes fewer pages
-- than in a table that has the order of the logs.
CREATE TABLE log_entries_by_row (
    session INTEGER NOT NULL REFERENCES sessions (key),
    log TEXT NOT NULL,
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session, log, number)
) STRICT;
INSERT INTO log_entries_by_row (session, log, number, body)
    SELECT session, log, number, body FROM log_entries ORDER BY session, log, number;
DROP TABLE log_entries;
ALTER TABLE log_entries_by_row RENAME TO log_entries;
