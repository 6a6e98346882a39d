-- What a principal took of its allowance in its last period.
CREATE TABLE allowances (
    principal TEXT COLLATE "C" PRIMARY KEY,
    period BIGINT NOT NULL,
    taken BIGINT NOT NULL
);

-- What a principal consumed on a day, and what a session had consumed when that was last counted. Costs are in picodollars.
CREATE TABLE daily_spend (
    principal TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (principal, day)
);
CREATE TABLE recorded_spend (
    session BIGINT PRIMARY KEY REFERENCES sessions (key),
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL
);
