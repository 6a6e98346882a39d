-- The CRC-32 of a body; NULL if it was written by an earlier version.
ALTER TABLE batches ADD COLUMN sum INTEGER;
ALTER TABLE definitions ADD COLUMN sum INTEGER;
-- The acknowledged writes that a session lost, in words, until it is written again.
ALTER TABLE sessions ADD COLUMN missing TEXT;
