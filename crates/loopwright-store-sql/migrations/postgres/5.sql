-- The CRC-32 of the columns of the row that writes change, which leaves out the lease; NULL if the row was not
-- written since.
ALTER TABLE sessions ADD COLUMN sum BIGINT;
