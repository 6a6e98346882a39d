-- Only tables of SQLite have another form in this version.
SELECT 9;
