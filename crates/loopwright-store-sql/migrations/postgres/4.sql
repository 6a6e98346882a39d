-- The CRC-32 of a body; NULL if it was written by an earlier version.
ALTER TABLE batches ADD COLUMN sum BIGINT;
ALTER TABLE definitions ADD COLUMN sum BIGINT;
-- The acknowledged writes that a session lost, in words, until it is written again.
ALTER TABLE sessions ADD COLUMN missing TEXT;
