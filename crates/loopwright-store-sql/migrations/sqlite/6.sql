-- What a principal took of its allowance in its last period.
CREATE TABLE allowances (
    principal TEXT PRIMARY KEY,
    period INTEGER NOT NULL,
    taken INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a principal consumed on a day, and what a session had consumed when that was last counted. Costs are in picodollars.
CREATE TABLE daily_spend (
    principal TEXT NOT NULL,
    day INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (principal, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE recorded_spend (
    session INTEGER PRIMARY KEY REFERENCES sessions (key),
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL
) STRICT;
